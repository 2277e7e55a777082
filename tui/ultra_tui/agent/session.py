"""The agent's conversation as the app holds it: turns, the queue of messages, stopping. Knows no screens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Protocol

from ultra_sdk import ChatMessage, Client, Delta, Done, EngineError, Prefill, Timing, Usage
from ultra_sdk.agent import (
    MODES,
    Agent,
    AgentError,
    Event,
    Finished,
    Mode,
    PermissionAsked,
    Reading,
    ReasoningDelta,
    Spent,
    Step,
    TextDelta,
    ToolAnswered,
    ToolCalled,
    Turn,
)
from ultra_sdk.agent.tools.base import Result

from ultra_tui.agent.approvals import Approvals
from ultra_tui.agent.dial import AgentDial
from ultra_tui.link import EngineLink
from ultra_tui.meter import Meter


class AgentView(Protocol):
    """What an agent's session tells whoever shows it."""

    def tasked(self, text: str) -> None:
        """A task, or a command, is on its way."""

    def happened(self, event: Event) -> None:
        """An event of the turn."""

    def ran(self, command: str, result: Result) -> None:
        """A command of the person's is over."""

    def noted(self, text: str) -> None:
        """Something that was asked for was done."""

    def warn(self, text: str, error: bool = False) -> None:
        """Something the person has to know."""

    def returned(self, texts: list[str]) -> None:
        """Queued messages that will not be sent by themselves any more."""

    def changed(self) -> None:
        """The meter, the mode or the queue changed."""

    def asking(self) -> None:
        """The questions that wait for a word changed."""


class AgentSession:
    """Gives tasks to one agent, one at a time."""

    def __init__(self, link: EngineLink, view: AgentView, dial: AgentDial) -> None:
        self.link = link
        self.meter = Meter()
        self.messages: list[ChatMessage] = []
        self.queue: list[str] = []
        """Messages that wait for the turn to end."""
        self.approvals = Approvals(view.asking)
        self._view = view
        self._dial = dial
        self._mode: Mode = dial.mode
        self._agent: Agent | None = None
        self._turn: Turn | None = None
        self._work: asyncio.Task[None] | None = None
        self._words: list[str] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False
        self._stopped = False

    @property
    def busy(self) -> bool:
        """Whether a task, a command or an undo is at work."""
        return self._work is not None

    @property
    def last_answer(self) -> str:
        """The words of the latest answer."""
        return next((m.content or "" for m in reversed(self.messages) if m.role == "assistant"), "")

    @property
    def mode(self) -> Mode:
        """How far the agent is trusted."""
        return self._mode

    def next_mode(self) -> Mode:
        """Go on to the next mode; it holds from the next call of a tool on."""
        self._mode = MODES[(MODES.index(self._mode) + 1) % len(MODES)]
        if self._agent is not None:
            self._agent.mode = self._mode
        self._view.changed()
        return self._mode

    # --- what a person asks for ---------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Give it a task, or queue it while another one is at work; ``!command`` runs that."""
        if self.busy:
            self.queue.append(text)
            self._view.changed()
            return
        self._view.tasked(text)
        if text.startswith("!") and text[1:].strip():
            self._begin(self._shell(text[1:].strip()))
        else:
            self.messages.append(ChatMessage("user", text))
            self._begin(self._task(text))

    def undo(self) -> None:
        """Take back what the last turn did to the files."""
        self._begin(self._move("undo"))

    def redo(self) -> None:
        """Bring it back."""
        self._begin(self._move("redo"))

    def cancel(self) -> bool:
        """Stop what is at work, and give back what waits for it. False if nothing is."""
        if self._work is None:
            return False
        self._stopped = True
        self._return_queue()
        if self._turn is not None:
            self._turn.cancel()
        else:
            self._work.cancel()
        return True

    def unqueue(self) -> str | None:
        """Take back the message queued last."""
        text = self.queue.pop() if self.queue else None
        self._view.changed()
        return text

    def forget(self) -> None:
        """Begin a new session. What still stops is let go of in the background."""
        agent, self._agent = self._agent, None
        self.messages.clear()
        self.meter.context_used = 0
        if agent is not None:
            closing = asyncio.create_task(agent.aclose(), name="leave session")
            self._leaving.add(closing)
            closing.add_done_callback(self._leaving.discard)
        self._dial = self._dial.fresh()
        self._view.changed()

    async def leave(self) -> None:
        """Stop and let go of the session; the engine stays."""
        if self._turn is not None:
            await self._turn.aclose()
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        await asyncio.gather(*self._leaving, return_exceptions=True)
        if self._agent is not None:
            await self._agent.aclose()

    async def close(self) -> None:
        """The same, and leave the engine."""
        self._closed = True
        await self.leave()
        await self.link.close()

    # --- at work ------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        if self.busy:
            work.close()
            self._view.warn("Something is at work: Esc stops it.")
            return
        self.meter.ask()
        self._work = asyncio.create_task(self._guarded(work), name="agent work")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        said = ""
        try:
            await work
        except asyncio.CancelledError:
            self.meter.stop("cancelled")
        except (EngineError, AgentError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
        except Exception as error:  # the task's boundary: the person must see it, and can go on
            said = f"unexpected {type(error).__name__}: {error}"
        self._turn = self._work = None
        if self._closed:
            return
        if said:
            self.meter.stop("failed")
            self._view.warn(said[0].upper() + said[1:], error=True)
        self._go_on()

    def _go_on(self) -> None:
        """The next message of the queue, or all of them back if it did not go well.

        What is said after a stop, while that is still under way, is meant to be sent.
        """
        well, self._stopped = self._stopped or self.meter.state in ("done", "ready"), False
        if well and self.queue:
            self.say(self.queue.pop(0))
        self._return_queue(unless=well)
        self._view.changed()

    def _return_queue(self, *, unless: bool = False) -> None:
        if self.queue and not unless:
            texts, self.queue = self.queue, []
            self._view.returned(texts)

    async def _ready(self) -> Agent:
        client: Client = await self.link.client()
        self.meter.context_total = client.info.context_tokens
        if self._agent is None:
            self._agent = self._dial.agent(client, self.approvals.ask)
        self._agent.engine = client
        self._agent.mode = self._mode
        return self._agent

    async def _task(self, text: str) -> None:
        agent = await self._ready()
        self._words = []
        self._turn = agent.turn(text)
        async with contextlib.aclosing(self._turn):
            async for event in self._turn:
                self._measure(event)
                if not self._closed:
                    self._view.happened(event)
                    self._view.changed()

    async def _shell(self, command: str) -> None:
        agent = await self._ready()
        self.meter.state = "working"
        result = await agent.shell(command)
        self.meter.state = "done"
        self._view.ran(command, result)

    async def _move(self, what: str) -> None:
        agent = await self._ready()
        turn = await (agent.undo() if what == "undo" else agent.redo())
        self.meter.state = "done"
        words = "Taken back" if what == "undo" else "Brought back"
        self._view.noted(f"{words}: {turn.label}")

    def _measure(self, event: Event) -> None:
        meter = self.meter
        match event:
            case Step():
                meter.ask()
            case Reading(done=done, total=total):
                meter.see(Prefill("", 0, done, total))
            case TextDelta(text=text, tokens=tokens):
                self._words.append(text)
                meter.see(Delta("", 0, count=tokens))
            case ReasoningDelta(tokens=tokens):
                meter.see(Delta("", 0, count=tokens))
            case Spent():
                meter.see(_spent(event))
                meter.state = "working"
            case ToolCalled() | ToolAnswered():
                meter.state = "working"
            case PermissionAsked():
                meter.state = "asking"
            case Finished(reason=reason):
                self.messages.append(ChatMessage("assistant", "".join(self._words)))
                meter.stop(
                    "cancelled" if reason == "cancelled" else "failed" if reason == "failed" else "done"
                )
            case _:
                pass


def _spent(event: Spent) -> Done:
    """The costs of a step as the engine told them."""
    decode = event.output_tokens / event.tokens_per_second * 1000 if event.tokens_per_second else 0.0
    usage = Usage(event.prompt_tokens, event.cached_tokens, event.output_tokens)
    return Done("", 0, "stop", usage, Timing(ttft_ms=event.first_token * 1000, decode_ms=decode))
