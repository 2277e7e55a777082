"""Calls with raw parameters, as Qwen3-Coder and MiMo write them.

    <tool_call>
    <function=write>
    <parameter=path>
    a.py
    </parameter>
    </function>
    </tool_call>

This is not XML: a value is code as it is, with ``<`` and ``&`` and even tags in it. A closing tag ends a
value only if what comes next is a tag of the form too, or the end.
"""

from __future__ import annotations

import json
import re

from .cursor import MAX_WORD, Wait
from .scanner import Scanner
from .strict import NotJson, Strict
from .tools import Tools

FUNCTION, PARAMETER = "<function=", "<parameter="
FUNCTION_END, PARAMETER_END = "</function>", "</parameter>"
CALL, CALL_END = "<tool_call>", "</tool_call>"

_NEXT = (FUNCTION, PARAMETER, FUNCTION_END, CALL, CALL_END)
_PLAIN = re.compile(r"[^\r\n<]+")
_JUNK = re.compile(r"[^<]+")


class FunctionCall:
    """Reads one call at a scanner's cursor, from ``<function=`` on."""

    def __init__(self, scanner: Scanner, tools: Tools) -> None:
        self._scanner, self._cursor, self._tools = scanner, scanner.cursor, tools
        self._name = ""
        self._given: set[str] = set()
        self._closes = False  # whether this model closes its parameters

    def read(self) -> Wait[None]:
        """Take it. Raises `NotJson` if it is cut off."""
        self._name = yield from self._tag(FUNCTION)
        self._scanner.start(self._name)
        self._cursor.take((yield from self._cursor.blank()))
        if (yield from self._cursor.char()) == "{":  # Llama's way: the arguments as JSON
            yield from Strict(self._cursor, self._scanner.arguments, (FUNCTION_END,)).value()
            yield from self._last_tag()
            return
        while (yield from self._parameter()):
            pass
        self._scanner.arguments("}" if self._given else "{}")

    def head(self, offset: int) -> Wait[str]:
        """The name at ``offset``, where ``<function=`` stands; empty if there is no whole tag."""
        return (yield from self._named(offset + len(FUNCTION)))[0]

    def _parameter(self) -> Wait[bool]:
        """Take the next parameter, or the end of the function; whether there may be more."""
        self._cursor.take((yield from self._cursor.blank()))
        tag = yield from self._cursor.literal((*_NEXT, PARAMETER_END))
        if tag == PARAMETER:
            yield from self._assignment()
            return True
        if tag == FUNCTION_END:
            self._cursor.take(len(tag))
            after = yield from self._cursor.blank()
            return bool((yield from self._cursor.literal((PARAMETER,), after)))
        if tag and tag != PARAMETER_END:
            return False  # the closing tag is missing
        if (yield from self._cursor.char()) == "":
            if self._cursor.cut:
                raise self._cut_off()
            return False
        self._cursor.take(len(tag) or 1)  # what is between parameters is nothing
        self._cursor.run(_JUNK)
        return True

    def _assignment(self) -> Wait[None]:
        name = yield from self._tag(PARAMETER)
        if not name or name in self._given:
            yield from self._value(_Nothing())
            return
        self._scanner.arguments(f"{', ' if self._given else '{'}{json.dumps(name, ensure_ascii=False)}: ")
        self._given.add(name)
        if self._tools.is_text(self._name, name):
            self._scanner.arguments('"')
            yield from self._value(_Quoted(self._scanner))
            self._scanner.arguments('"')
        else:
            kept = _Kept()
            yield from self._value(kept)
            self._scanner.arguments(self._tools.value("".join(kept.pieces)))

    def _tag(self, opening: str) -> Wait[str]:
        """Take a tag and return the name in it; empty if it is none."""
        self._cursor.take(len(opening))
        name, end = yield from self._named(0)
        self._cursor.take(end)
        return name

    def _named(self, offset: int) -> Wait[tuple[str, int]]:
        """The name from ``offset`` up to ``>``, in quotes or not, and the offset behind that."""
        end = offset
        while (char := (yield from self._cursor.char(end))) not in (">", "", "\n", "<"):
            end += 1
            if end - offset > MAX_WORD:
                return "", offset
        name = self._cursor.text(offset, end).strip().strip("\"'").strip().removeprefix("functions.")
        if char != ">" or not re.fullmatch(r"[\w.:-]+", name):
            return "", offset
        return name, end + 1

    def _last_tag(self) -> Wait[None]:
        blank = yield from self._cursor.blank()
        if (yield from self._cursor.literal((FUNCTION_END,), blank)):
            self._cursor.take(blank + len(FUNCTION_END))

    # --- values -------------------------------------------------------------------------------------

    def _value(self, out: _Nothing) -> Wait[None]:
        """Take a value and the tag that closes it; the line breaks at its two ends are not its own."""
        first = yield from self._break(0)
        if not (yield from self._ends(first, True)):  # else the value is empty
            self._cursor.take(first)
        while True:
            if plain := self._cursor.run(_PLAIN):
                out.put(plain)
            if (yield from self._cursor.char()) == "":
                raise self._cut_off()
            broken = yield from self._break(0)
            if (yield from self._ends(broken, broken > 0)):
                self._cursor.take(broken)
                if (yield from self._cursor.literal((PARAMETER_END,))):
                    self._closes = True
                    self._cursor.take(len(PARAMETER_END))
                return
            out.put(self._cursor.take(max(broken, 1)))

    def _break(self, offset: int) -> Wait[int]:
        """The offset behind a line break at ``offset``, if one is there."""
        return offset + len((yield from self._cursor.literal(("\r\n", "\n"), offset)))

    def _ends(self, offset: int, line: bool) -> Wait[bool]:
        """Whether the tag at ``offset``, which may begin a line, ends a value."""
        tag = yield from self._cursor.literal((PARAMETER, PARAMETER_END, FUNCTION_END, CALL_END), offset)
        if not tag:
            return False
        if tag == PARAMETER:
            if not line or self._closes:
                return False
            name = (yield from self._named(offset + len(tag)))[0]
            return bool(name) and name not in self._given and self._tools.has(self._name, name)
        after = yield from self._cursor.blank(offset + len(tag))
        if (yield from self._cursor.char(after)) == "":
            return True
        expected = {
            PARAMETER_END: _NEXT,
            FUNCTION_END: (PARAMETER, FUNCTION, CALL, CALL_END),
            CALL_END: (CALL,),
        }
        return bool((yield from self._cursor.literal(expected[tag], after)))

    def _cut_off(self) -> NotJson:
        return NotJson(f"the call of {self._name} is cut off; write it again, shorter", self._cursor.position)


class _Nothing:
    """Where a value goes that nobody wants."""

    def put(self, text: str) -> None:
        pass


class _Kept(_Nothing):
    def __init__(self) -> None:
        self.pieces: list[str] = []

    def put(self, text: str) -> None:
        self.pieces.append(text)


class _Quoted(_Nothing):
    """Hands a value on as the inside of a JSON string."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner

    def put(self, text: str) -> None:
        self._scanner.arguments(json.dumps(text, ensure_ascii=False)[1:-1])
