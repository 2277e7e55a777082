"""One conversation with an engine: its turns, the queue of messages, cancelling. Knows nothing of screens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ultra_sdk import ChatMessage, Delta, Done, EngineError, PromptTooLong, ToolCall
from ultra_sdk.protocol import Finish

from ultra_tui.link import EngineLink
from ultra_tui.meter import Meter

Outcome = Literal["stop", "length", "cancelled", "failed"]
_OUTCOMES: dict[Finish, Outcome] = {
    "stop": "stop",
    "tool_calls": "stop",
    "length": "length",
    "cancelled": "cancelled",
    "error": "failed",
}


class View(Protocol):
    """What a session tells whoever shows it."""

    def asked(self, text: str) -> None:
        """A message is on its way; an answer to it begins."""

    def fragment(self, text: str) -> None:
        """More text of the answer."""

    def thought(self, text: str) -> None:
        """More of what the model thinks before it answers."""

    def called(self, piece: ToolCall) -> None:
        """A piece of a tool call."""

    def answered(self, outcome: Outcome) -> None:
        """The answer is over; the meter has its figures."""

    def warn(self, text: str, error: bool = False) -> None:
        """Something the person has to know."""

    def returned(self, texts: list[str]) -> None:
        """Queued messages that will not be sent by themselves any more."""

    def changed(self) -> None:
        """The meter or the queue changed."""


@dataclass
class _Turn:
    """A question being answered."""

    question: str
    task: asyncio.Task[None] | None = None
    pieces: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    over: bool = False


class Session:
    """Sends what is said, one turn at a time, with the whole conversation each time."""

    def __init__(
        self,
        link: EngineLink,
        view: View,
        options: Mapping[str, Any] | None = None,
        system: str | None = None,
    ) -> None:
        self.link = link
        self.meter = Meter()
        self.messages: list[ChatMessage] = []
        """The turns so far, without the system prompt."""
        self.queue: list[str] = []
        """Messages that wait for the answer to end."""
        self._view = view
        self._options = dict(options or {})
        self._system = system
        self._turn: _Turn | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited or coming."""
        return self._turn is not None

    @property
    def last_answer(self) -> str:
        """The text of the latest answer as the model wrote it."""
        return next((m.content or "" for m in reversed(self.messages) if m.role == "assistant"), "")

    def say(self, text: str) -> None:
        """Send a message, or queue it while an answer is coming."""
        if self._turn is not None:
            self.queue.append(text)
            self._view.changed()
            return
        turn = self._turn = _Turn(text)
        self.meter.ask()
        self._view.asked(text)
        turn.task = asyncio.create_task(self._run(turn), name="turn")
        self._leaving.add(turn.task)
        turn.task.add_done_callback(self._leaving.discard)

    def cancel(self) -> bool:
        """Stop the answer: at once for the person, in the background for the engine. False if none runs."""
        turn = self._turn
        if turn is None:
            return False
        assert turn.task is not None, "a turn has a task from its first moment on"
        self.meter.stop("cancelled")
        self._end(turn, "cancelled")
        turn.task.cancel()
        return True

    def unqueue(self) -> str | None:
        """Take back the message queued last."""
        text = self.queue.pop() if self.queue else None
        self._view.changed()
        return text

    def forget(self) -> None:
        """Begin a new conversation."""
        assert self._turn is None, "cancel before forgetting"
        self.messages.clear()
        self.meter.context_used = 0
        self._view.changed()

    async def close(self) -> None:
        """Cancel what runs and leave the engine. The view hears nothing more: it may be gone."""
        if self._turn is not None:
            self._turn.over, self._turn = True, None
        for task in self._leaving:
            task.cancel()
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await self.link.close()

    # --- a turn -------------------------------------------------------------------------------------

    def _prompt(self, question: str) -> list[ChatMessage]:
        system = [ChatMessage("system", self._system)] if self._system else []
        return [*system, *self.messages, ChatMessage("user", question)]

    async def _run(self, turn: _Turn) -> None:
        try:
            outcome = await self._stream(turn)
        except EngineError as error:
            self._fail(turn, _sentence(error))
        except Exception as error:  # the task's boundary: the person must see it, and can go on
            self._fail(turn, f"unexpected {type(error).__name__}: {error}")
        else:
            self._end(turn, outcome)

    async def _stream(self, turn: _Turn) -> Outcome:
        outcome: Outcome = "stop"
        client = await self.link.client()
        self.meter.context_total = client.info.context_tokens
        async with client.stream(messages=self._prompt(turn.question), **self._options) as stream:
            async for event in stream:
                if turn.over:
                    break
                self.meter.see(event)
                if isinstance(event, Delta):
                    self._see(turn, event)
                elif isinstance(event, Done):
                    outcome = _OUTCOMES[event.finish]
                self._view.changed()
        return outcome

    def _see(self, turn: _Turn, delta: Delta) -> None:
        if delta.reasoning:
            turn.thoughts.append(delta.reasoning)
            self._view.thought(delta.reasoning)
        if delta.text:
            turn.pieces.append(delta.text)
            self._view.fragment(delta.text)
        for piece in delta.tool_calls:
            self._view.called(piece)

    def _fail(self, turn: _Turn, message: str) -> None:
        if turn.over:
            return
        self.meter.stop("failed")
        self._end(turn, "failed")
        self._view.warn(message, error=True)

    def _end(self, turn: _Turn, outcome: Outcome) -> None:
        if turn.over:
            return
        turn.over, self._turn = True, None
        answer = "".join(turn.pieces)
        if answer:  # without one the question is dropped: a template may refuse two in a row
            thoughts = "".join(turn.thoughts) or None
            said = ChatMessage("assistant", answer, reasoning=thoughts)
            self.messages += [ChatMessage("user", turn.question), said]
        self._view.answered(outcome)
        if outcome == "length":
            self._view.warn(self._why_short())
        if outcome in ("stop", "length"):
            if self.queue:
                self.say(self.queue.pop(0))
        elif self.queue:
            texts, self.queue = self.queue, []
            self._view.returned(texts)
        self._view.changed()

    def _why_short(self) -> str:
        used, total = self.meter.context_used, self.meter.context_total
        if total and used >= total - 1:
            return f"The context is full: {used:,} of {total:,} tokens. /new starts a new conversation."
        return f"The answer was cut at {self.meter.output_tokens:,} tokens, the limit that was set."


def _sentence(error: EngineError) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    text = text[0].upper() + text[1:]
    if isinstance(error, PromptTooLong):
        return f"{text.rstrip('.')}. /new starts a new conversation."
    return text
