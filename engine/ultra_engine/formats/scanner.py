"""What every scanner is: text in as it comes, events out as soon as they are certain."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable

from .cursor import Cursor, Wait
from .events import CallArguments, CallEnd, CallStart, Event, Malformed, Reasoning, Syntax, Text, joined

_LETTERS = string.ascii_letters + string.digits


def new_id() -> str:
    """An id for a call: nine letters and digits, which is what the strictest templates take."""
    return "".join(secrets.choice(_LETTERS) for _ in range(9))


class Scanner:
    """Feed text to `push`, then `finish` once. The events do not depend on how the text was cut.

    Text is held back only while it may be the beginning of something else. Together the texts, reasoning,
    syntax and raw calls of all events are the text that came in.
    """

    def __init__(self, make_id: Callable[[], str] = new_id) -> None:
        self.cursor = Cursor()
        self._make_id = make_id
        self._events: list[Event] = []
        self._calls = 0
        self._open: int | None = None
        self._work = self.scan()
        self._ended = False

    def scan(self) -> Wait[None]:
        """Read all of the text. Each form implements this."""
        raise NotImplementedError

    def push(self, text: str) -> list[Event]:
        """What became certain with this text."""
        self.cursor.feed(text)
        return self._go_on()

    def finish(self, cut: bool = False) -> list[Event]:
        """What is left at the end. ``cut``: the model would have gone on."""
        self.cursor.end(cut)
        events = self._go_on()
        assert self._ended, "a scanner reads to the end"
        return events

    def _go_on(self) -> list[Event]:
        if not self._ended:
            try:
                next(self._work)
            except StopIteration:
                self._ended = True
        events, self._events = self._events, []
        return joined(events)

    # --- for the readers ----------------------------------------------------------------------------

    def text(self, text: str) -> None:
        if text:
            self._events.append(Text(text))

    def reasoning(self, text: str) -> None:
        if text:
            self._events.append(Reasoning(text))

    def syntax(self, raw: str) -> None:
        if raw:
            self._events.append(Syntax(raw))

    @property
    def started(self) -> bool:
        """Whether a call has begun and not ended."""
        return self._open is not None

    def start(self, name: str) -> None:
        """A call begins."""
        assert self._open is None, "one call at a time"
        self._open = self._calls
        self._calls += 1
        self._events.append(CallStart(self._open, name, self._make_id()))

    def arguments(self, text: str) -> None:
        assert self._open is not None, "no call has begun"
        if text:
            self._events.append(CallArguments(self._open, text))

    def end(self, raw: str) -> None:
        """The call is whole."""
        assert self._open is not None, "no call has begun"
        self._events.append(CallEnd(self._open, raw))
        self._open = None

    def malformed(self, raw: str, why: str) -> None:
        """The call that has begun, or something instead of one, is none."""
        if self._open is None:
            index = self._calls
            self._calls += 1
        else:
            index = self._open
        self._open = None
        self._events.append(Malformed(index, raw, why))
