"""JSON as models write it.

Beyond JSON: line breaks inside strings, trailing commas, single quotes, bare keys, Python's True, False and
None, and closing brackets that are missing at the very end. A string that is cut off is an error: half of a
file must never be taken for all of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

WORDS = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "undefined": None,
}
BARE = re.compile(r"[A-Za-z_$][\w$.-]*")
NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
SPACE = re.compile(r"\s*")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
MAX_DEPTH = 50
_STRICT = json.JSONDecoder(strict=False)


class NotJson(ValueError):
    """The text is not even this; ``at`` is where."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def parse(text: str, start: int = 0) -> tuple[Any, int]:
    """The value that begins at ``start``, and where it ends. Raises `NotJson`.

    parse("{'path': 'a.py', 'all': True,}")   # ({"path": "a.py", "all": True}, 30)
    """
    start = _skip(text, start)
    try:
        return _STRICT.raw_decode(text, start)
    except (ValueError, RecursionError):
        return _Reader(text).value(start, 0)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        at = _skip(self._text, at)
        char = self._text[at : at + 1]
        if depth > MAX_DEPTH:
            raise NotJson("it is nested too deeply", at)
        if char == "{":
            return self._object(at + 1, depth)
        if char == "[":
            return self._array(at + 1, depth)
        if char in ('"', "'") and char:
            return self._string(at)
        if (number := NUMBER.match(self._text, at)) and number[0]:
            return _number(number[0], at), number.end()
        word = BARE.match(self._text, at)
        if word and word[0] in WORDS:
            return WORDS[word[0]], word.end()
        raise NotJson("a value is missing" if char else "it is cut off", at)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        while True:
            at = self._after_commas(at)
            char = self._text[at : at + 1]
            if char in ("}", ""):
                return found, at + len(char)
            key, at = self._key(at)
            at = _skip(self._text, at)
            if self._text[at : at + 1] != ":":
                raise NotJson(f"a colon is missing after {key!r}", at)
            found[key], at = self.value(at + 1, depth + 1)
            self._ended(at, "}")

    def _array(self, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            at = self._after_commas(at)
            char = self._text[at : at + 1]
            if char in ("]", ""):
                return found, at + len(char)
            item, at = self.value(at, depth + 1)
            found.append(item)
            self._ended(at, "]")

    def _ended(self, at: int, close: str) -> None:
        at = _skip(self._text, at)
        if self._text[at : at + 1] not in (",", close, ""):
            raise NotJson("a comma is missing, or a quote in a string has no backslash", at)

    def _after_commas(self, at: int) -> int:
        at = _skip(self._text, at)
        if self._text[at : at + 1] == ",":
            at = _skip(self._text, at + 1)
        return at

    def _key(self, at: int) -> tuple[str, int]:
        if self._text[at] in "\"'":
            return self._string(at)
        word = BARE.match(self._text, at)
        if word is None:
            raise NotJson("a name is missing", at)
        return word[0], word.end()

    def _string(self, at: int) -> tuple[str, int]:
        quote = self._text[at]
        out: list[str] = []
        i = at + 1
        while i < len(self._text):
            char = self._text[i]
            if char == quote:
                return "".join(out), i + 1
            if char != "\\":
                out.append(char)
                i += 1
                continue
            escaped = self._text[i + 1 : i + 2]
            if escaped == "u" and re.match(r"[0-9a-fA-F]{4}", self._text[i + 2 : i + 6]):
                text, i = self._unicode(i)
                out.append(text)
                continue
            # A backslash before anything else stands for itself, as in '\d'.
            known = escaped in ESCAPES or (escaped and escaped in "\"'\\/")
            out.append(ESCAPES.get(escaped, escaped) if known else "\\" + escaped)
            i += 2
        raise NotJson("a string is cut off", at)

    def _unicode(self, at: int) -> tuple[str, int]:
        units = re.compile(r"(?:\\u[0-9a-fA-F]{4})+").match(self._text, at)
        assert units is not None
        decoded: str = json.loads(f'"{units[0]}"')
        return decoded, units.end()


def _number(text: str, at: int) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # more digits than Python converts
        raise NotJson("a number is too long", at) from None


def _skip(text: str, at: int) -> int:
    space = SPACE.match(text, at)
    return space.end() if space else at
