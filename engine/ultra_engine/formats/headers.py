"""Headers of gpt-oss's messages: who they are from and for, and in which channel."""

from __future__ import annotations

import re

START, CHANNEL, MESSAGE, CONSTRAIN, END, RETURN, CALL = NAMES = (
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
)
CHANNELS = ("analysis", "commentary", "final")
MAX_HEADER = 200

_WORDS = r"\s*(?:[\w.:=-]+\s*){0,%d}"
_PARTS = {
    START: re.compile(r"\s*\w*\s*(?:t|to|to=[\w.:-]*)?\s*"),
    CHANNEL: re.compile(_WORDS % 3),
    CONSTRAIN: re.compile(_WORDS % 2),
}
_RECIPIENT = re.compile(r"\bto=([\w.:-]+)")
_NO_BODY = re.compile(r"\s*(?:(?:assistant|analysis|commentary|final|json|code|to=[\w.:-]*)(?:\s+|\Z))*")


class Header:
    """Takes the parts of a header as they come."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self._part = START

    def begin(self, mark: str) -> None:
        """A part begins; ``<|start|>`` forgets all that there was."""
        if mark == START:
            self._parts.clear()
        self._part = mark

    def add(self, char: str) -> bool:
        """One more character. False if this cannot be a header any more."""
        said = self._parts[self._part] = self._parts.get(self._part, "") + char
        return len(said) <= MAX_HEADER and _PARTS[self._part].fullmatch(said) is not None

    @property
    def channel(self) -> str:
        """The channel, one of `CHANNELS`; ``final`` if it names none of them."""
        words = self._parts.get(CHANNEL, "").split()
        return words[0] if words and words[0] in CHANNELS else "final"

    @property
    def recipient(self) -> str:
        """The tool that a message is for; it may be named before the channel, or after it."""
        found = _RECIPIENT.search(" ".join(self._parts.values()))
        return found[1] if found else ""

    @property
    def body(self) -> str:
        """What cannot be part of a header: the beginning of a body whose mark is missing."""
        said = self._parts.get(self._part, "")
        found = _NO_BODY.match(said)
        return said[found.end() :] if found else said
