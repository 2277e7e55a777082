"""A place in text that is still arriving.

Readers are generators over a cursor: they ask for characters, and yield where none has come yet. What they
find therefore depends on the characters alone, never on how the text was cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator
from typing import TypeVar

T = TypeVar("T")
Wait = Generator[None, None, T]
"""A step that may have to wait for text; ``yield from`` it for its result."""

_WORD = re.compile(r"[\w.:-]+")
_SPACE = re.compile(r"\s+")
MAX_WORD = 128


class Cursor:
    """Text ahead of us, looked at by offset and taken from the front."""

    def __init__(self, text: str = "", ended: bool = False) -> None:
        self._text, self._at = text, 0
        self.ended = ended
        self.cut = False
        """Whether the text ended because it had to, in the middle of whatever it was."""
        self.position = 0
        """Characters taken so far."""
        self._raw: list[str] | None = None

    # --- from outside -------------------------------------------------------------------------------

    def feed(self, text: str) -> None:
        self._text = self._text[self._at :] + text
        self._at = 0

    def end(self, cut: bool) -> None:
        self.ended, self.cut = True, cut

    # --- taking -------------------------------------------------------------------------------------

    def take(self, count: int) -> str:
        """The next characters, which must be here already."""
        text = self._text[self._at : self._at + count]
        assert len(text) == count, "look before you take"
        self._at += count
        self.position += count
        if self._raw is not None:
            self._raw.append(text)
        return text

    def run(self, pattern: re.Pattern[str]) -> str:
        """Take what ``pattern`` matches of the text that is here; perhaps nothing."""
        found = pattern.match(self._text, self._at)
        return self.take(found.end() - self._at) if found else ""

    def put_back(self, text: str) -> None:
        """Undo the taking of ``text``, the characters taken last, which are not being recorded."""
        assert self._raw is None
        self._text, self._at = text + self._text[self._at :], 0
        self.position -= len(text)

    def record(self) -> None:
        """Keep what is taken from now on."""
        self._raw = []

    def recorded(self) -> str:
        """What was taken since `record`, which goes on."""
        assert self._raw is not None
        self._raw = ["".join(self._raw)]
        return self._raw[0]

    def stop_recording(self) -> str:
        """What was taken since `record`."""
        raw, self._raw = self.recorded(), None
        return raw

    # --- looking ------------------------------------------------------------------------------------

    def char(self, offset: int = 0) -> Wait[str]:
        """The character at ``offset``; empty after the end of the text."""
        while self._at + offset >= len(self._text) and not self.ended:
            yield
        at = self._at + offset
        return self._text[at : at + 1]

    def literal(self, options: Collection[str], offset: int = 0) -> Wait[str]:
        """Which of ``options`` stands at ``offset``; empty if none. None may be the beginning of another."""
        most = max(map(len, options), default=0)
        while True:
            start = self._at + offset
            ahead = self._text[start : start + most]
            for option in options:
                if ahead.startswith(option):
                    return option
            if self.ended or not any(option.startswith(ahead) for option in options):
                return ""
            yield

    def blank(self, offset: int = 0) -> Wait[int]:
        """The first offset from ``offset`` on that holds no white space."""
        return (yield from self._past(_SPACE, offset, None))

    def word(self, offset: int = 0) -> Wait[int]:
        """Where the word at ``offset`` ends: letters, digits and any of ``_.:-``, not too many of them."""
        return (yield from self._past(_WORD, offset, MAX_WORD))

    def text(self, start: int, end: int) -> str:
        """What is between two offsets that were looked at."""
        return self._text[self._at + start : self._at + end]

    def _past(self, pattern: re.Pattern[str], offset: int, most: int | None) -> Wait[int]:
        while True:
            found = pattern.match(self._text, self._at + offset)
            end = found.end() - self._at if found else offset
            if most is not None and end - offset >= most:
                return offset + most
            if self._at + end < len(self._text) or self.ended:
                return end
            yield


def finished(work: Wait[T]) -> T:
    """The result of a step over a text that is all here."""
    try:
        next(work)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("it waits for text though there is no more")
