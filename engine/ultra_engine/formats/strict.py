"""JSON as models write it, made JSON as it comes.

Beyond JSON: line breaks inside strings, trailing commas, single quotes, bare keys, Python's True, False and
None, and closing brackets that are missing at the very end. A string that is cut off is an error: half of a
file must never be taken for all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection

from .cursor import Cursor, Wait

WORDS = {
    "true": "true",
    "True": "true",
    "false": "false",
    "False": "false",
    "null": "null",
    "None": "null",
    "undefined": "null",
}
MAX_DEPTH = 50
MAX_KEY = 1000
MAX_DIGITS = 4000
"""Python reads no integer of more than 4300."""

_BARE = re.compile(r"[A-Za-z_$][\w$.-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SCALAR = re.compile(r"[\w$.+-]+")
_SAFE = re.compile(r"[^\"'\\<\x00-\x1f\ud800-\udfff]+")
_ONE = re.compile(r"[^\"'\\<\x00-\x1f\ud800-\udfff]")
_ESCAPES = frozenset('"\\/bfnrt')


class NotJson(ValueError):
    """The text is not even this; ``at`` is where."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


class Strict:
    """Reads one value from a cursor and hands it on as strict JSON, piece by piece.

    ``ends``: marks that end the value wherever they stand, and tags that do it even in a string if only the
    end of everything, or the next call, is behind them.
    """

    def __init__(self, cursor: Cursor, emit: Callable[[str], None], ends: Collection[str] = ()) -> None:
        self._cursor, self.emit, self._ends = cursor, emit, ends

    def value(self, depth: int = 0) -> Wait[None]:
        """Take one value. Raises `NotJson`."""
        char = yield from self.peek()
        if depth > MAX_DEPTH:
            raise self.error("it is nested too deeply")
        if char == "{":
            yield from self._object(depth)
        elif char == "[":
            yield from self._array(depth)
        elif char and char in "\"'":
            yield from self.string()
        else:
            yield from self._scalar()

    def peek(self) -> Wait[str]:
        """Pass white space and look at the next character."""
        self._cursor.take((yield from self._cursor.blank()))
        return (yield from self._cursor.char())

    def error(self, message: str) -> NotJson:
        return NotJson(message, self._cursor.position)

    # --- objects and arrays -------------------------------------------------------------------------

    def _object(self, depth: int) -> Wait[None]:
        self.open("{")
        first = True
        while (yield from self.goes_on("}")):
            if not first:
                self.emit(", ")
            yield from self.key()
            self.emit(": ")
            yield from self.value(depth + 1)
            first = False
        self.emit("}")

    def _array(self, depth: int) -> Wait[None]:
        self.open("[")
        first = True
        while (yield from self.goes_on("]")):
            if not first:
                self.emit(", ")
            yield from self.value(depth + 1)
            first = False
        self.emit("]")

    def open(self, bracket: str) -> None:
        self._cursor.take(1)
        self.emit(bracket)
        self._between = False

    _between = False
    """A member was read, and no comma since."""

    def goes_on(self, close: str) -> Wait[bool]:
        """Pass commas; whether another member follows. A closing bracket is taken, one missing at the end
        is not missed."""
        comma = not self._between
        while (char := (yield from self.peek())) == ",":
            self._cursor.take(1)
            comma = True
        self._between = True
        if char == close:
            self._cursor.take(1)
            return False
        if char in ("", "<") or char in self._ends:
            if char == "" and self._cursor.cut:
                raise self.error("it is cut off")
            return False
        if not comma:
            raise self.error("a comma is missing, or a quote in a string has no backslash")
        return True

    def key(self) -> Wait[str]:
        """Take a name with its colon and hand it on without; the name."""
        char = yield from self._cursor.char()
        if char and char in "\"'":
            kept: list[str] = []
            yield from Strict(self._cursor, kept.append, self._ends).string(MAX_KEY)
            name = str(json.loads("".join(kept)))
        else:
            end = yield from self._scalar_end()
            name = self._cursor.text(0, end)
            if not _BARE.fullmatch(name):
                raise self.error("a name is missing")
            self._cursor.take(end)
        if (yield from self.peek()) != ":":
            raise self.error(f"a colon is missing after {name!r}")
        self._cursor.take(1)
        self.emit(json.dumps(name, ensure_ascii=False))
        return name

    # --- strings and words --------------------------------------------------------------------------

    def string(self, most: int | None = None) -> Wait[None]:
        """Take a string in either kind of quotes, of at most so many characters."""
        start = self._cursor.position
        quote = self._cursor.take(1)
        self.emit('"')
        while True:
            if most is not None and self._cursor.position - start > most:
                raise self.error("a name is too long")
            if safe := self._cursor.run(_SAFE if most is None else _ONE):
                self.emit(safe)
            char = yield from self._cursor.char()
            if char == "" or char in self._ends or (char == "<" and (yield from self._over())):
                raise self.error("a string is cut off")
            if char == "\\":
                yield from self._escape()
                continue
            self._cursor.take(1)
            if char == quote:
                break
            self.emit(char if char in "'<" else json.dumps(char)[1:-1])
        self.emit('"')

    def _over(self) -> Wait[bool]:
        """Whether one of the ending tags stands here with nothing but space, or the next call, behind it."""
        tag = yield from self._cursor.literal(self._ends)
        if not tag:
            return False
        after = yield from self._cursor.blank(len(tag))
        if (yield from self._cursor.char(after)) == "":
            return True
        return bool((yield from self._cursor.literal((tag.replace("/", ""),), after)))

    def _escape(self) -> Wait[None]:
        char = yield from self._cursor.char(1)
        if char == "":
            raise self.error("a string is cut off")
        if char == "u" and (first := (yield from self._unit(2))) is not None:
            yield from self._unicode(first)
            return
        self._cursor.take(2)
        if char in _ESCAPES:
            self.emit("\\" + char)
        elif char == "'":
            self.emit("'")
        elif char != "\n":  # a backslash before anything else stands for itself, as in '\d'
            self.emit("\\\\" + json.dumps(char, ensure_ascii=False)[1:-1])

    def _unicode(self, first: str) -> Wait[None]:
        """A ``\\u`` escape; half of a surrogate pair becomes U+FFFD, since no UTF-8 can hold it."""
        code = int(first, 16)
        if not 0xD800 <= code < 0xE000:
            self._cursor.take(6)
            self.emit("\\u" + first)
            return
        second = None
        if code < 0xDC00 and (yield from self._cursor.literal(("\\u",), 6)):
            second = yield from self._unit(8)
        if second is not None and 0xDC00 <= int(second, 16) < 0xE000:
            self._cursor.take(12)
            self.emit(f"\\u{first}\\u{second}")
        else:
            self._cursor.take(6)
            self.emit("\\ufffd")

    def _unit(self, offset: int) -> Wait[str | None]:
        for at in range(offset, offset + 4):
            char = yield from self._cursor.char(at)
            if not char or char not in "0123456789abcdefABCDEF":
                return None
        return self._cursor.text(offset, offset + 4)

    def _scalar(self) -> Wait[None]:
        end = yield from self._scalar_end()
        text = self._cursor.text(0, end)
        if len(text) > MAX_DIGITS:
            raise self.error("a number is too long")
        if (yield from self._cursor.char(end)) == "" and self._cursor.cut:
            raise self.error("it is cut off")
        if text in WORDS:
            self.emit(WORDS[text])
        elif _NUMBER.fullmatch(text):
            self.emit(text)
        else:
            char = yield from self._cursor.char()
            raise self.error("a value is missing" if char else "it is cut off")
        self._cursor.take(end)

    def _scalar_end(self) -> Wait[int]:
        end = 0
        while end <= MAX_DIGITS and _SCALAR.fullmatch((yield from self._cursor.char(end)) or " "):
            end += 1
        return end
