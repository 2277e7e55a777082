"""The agent in the app: its events in the transcript, its questions on the card, its names in the prompt."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from ultra_sdk.agent import Edited, Event, Finished, ReasoningDelta, TextDelta
from ultra_sdk.agent.mentions import START, Mentions
from ultra_sdk.agent.tools.base import Result
from ultra_sdk.agent.workspace.root import Root

from ultra_tui.agent.blocks import DiffBlock, EventBlock, OutputBlock
from ultra_tui.agent.card import ApprovalCard
from ultra_tui.agent.dial import AgentDial
from ultra_tui.agent.lines import Tone, ending, line
from ultra_tui.agent.session import AgentSession
from ultra_tui.transcript.blocks import NoticeBlock, UserBlock

if TYPE_CHECKING:
    from ultra_tui.app import ChatApp

OFFERED = 8


class AgentPane:
    """Draws an `AgentSession` in a `ChatApp`. It is the view of that session."""

    def __init__(self, app: ChatApp, dial: AgentDial) -> None:
        self._app = app
        self.session = AgentSession(app.engine, self, dial)
        self.card = ApprovalCard(self.session.approvals)
        self._root = Root(dial.root)
        self._mentions: Mentions | None = None
        self._answering = False
        self._gap = True

    # --- the view of the session --------------------------------------------------------------------

    def tasked(self, text: str) -> None:
        self._app.transcript.add(UserBlock(text))
        self._app.transcript.follow()
        self._gap = True
        self._app.changed()

    def happened(self, event: Event) -> None:
        if isinstance(event, TextDelta | ReasoningDelta):
            self._say(event)
            return
        if isinstance(event, Finished):
            self._add(*ending(event), gap=True)
            self.refresh_names()
        elif (said := line(event)) is not None:
            self._add(*said)
            if isinstance(event, Edited):
                self._app.transcript.add(DiffBlock(event.diff))

    def ran(self, command: str, result: Result) -> None:
        self._app.transcript.add(OutputBlock(result.text))
        self.refresh_names()

    def noted(self, text: str) -> None:
        self._app.transcript.add(NoticeBlock(text))

    def warn(self, text: str, error: bool = False) -> None:
        self._close_answer()
        self._app.warn(text, error)

    def returned(self, texts: list[str]) -> None:
        self._app.returned(texts)

    def changed(self) -> None:
        self._app.changed()

    def asking(self) -> None:
        self._close_answer()
        self.card.follow()
        if self.session.approvals.first is None:
            self._app.prompt.focus()

    def _say(self, event: TextDelta | ReasoningDelta) -> None:
        if not self._answering:
            self._app.transcript.begin_answer()
            self._answering = True
        if isinstance(event, TextDelta):
            self._app.transcript.fragment(event.text)
        else:
            self._app.transcript.thought(event.text)

    def _add(self, text: str, tone: Tone, gap: bool = False) -> None:
        self._close_answer()
        self._app.transcript.add(EventBlock(text, tone, gap or self._gap))
        self._gap = False

    def _close_answer(self) -> None:
        if self._answering:
            self._app.transcript.end_answer()
            self._answering, self._gap = False, True

    # --- names of files -----------------------------------------------------------------------------

    def refresh_names(self) -> None:
        """Look at the project's files again, for completion."""
        self._app.run_worker(self._look(), group="names", exclusive=True, exit_on_error=False)

    async def _look(self) -> None:
        self._mentions = await asyncio.to_thread(Mentions, self._root)

    def offered(self, before: str) -> list[str]:
        """What may be meant by the mention in which the text before the cursor ends."""
        if self._mentions is None or "@" not in before:
            return []
        return self._mentions.complete(before)[:OFFERED]

    def completed(self, before: str) -> str | None:
        """The text before the cursor with its mention completed; None if there is nothing to complete."""
        offered = self.offered(before)
        if not offered:
            return None
        start = list(START.finditer(before))[-1].end()
        end = "" if re.search(r"/\"?$", offered[0]) else " "
        return f"{before[:start]}{offered[0]}{end}"
