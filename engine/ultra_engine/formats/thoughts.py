"""Reasoning between tags at the beginning of an answer."""

from __future__ import annotations

import re

from .cursor import Wait
from .functions import FUNCTION
from .scanner import Scanner
from .tools import Tools

THINK = {"<think>": "</think>", "<thinking>": "</thinking>"}
CALL = "<tool_call>"

_PLAIN = re.compile(r"[^\s<]+")
_HEAD = ("{", '"', "name", '"', ":", '"')


class Thoughts:
    """Reads them at a scanner's cursor; the white space at their ends is not their own."""

    def __init__(self, scanner: Scanner, tools: Tools) -> None:
        self._scanner, self._cursor, self._tools = scanner, scanner.cursor, tools

    def read(self, inside: bool) -> Wait[None]:
        """Take the reasoning, if there is any. ``inside``: the opening tag is in the prompt."""
        closers = tuple(THINK.values())
        blank = yield from self._cursor.blank()
        tag = yield from self._cursor.literal(tuple(THINK), blank)
        if tag:
            self._scanner.syntax(self._cursor.take(blank + len(tag)))
            closers = (THINK[tag],)
        elif not inside:
            return
        self._scanner.syntax(self._cursor.take((yield from self._cursor.blank())))
        yield from self._body(closers)

    def _body(self, closers: tuple[str, ...]) -> Wait[None]:
        fresh = True
        while True:
            if plain := self._cursor.run(_PLAIN):
                self._scanner.reasoning(plain)
                fresh = False
            blank = yield from self._cursor.blank()
            char = yield from self._cursor.char(blank)
            if char == "":
                self._scanner.syntax(self._cursor.take(blank))
                return
            fresh = fresh or "\n" in self._cursor.text(0, blank)
            closer = yield from self._cursor.literal(closers, blank)
            if closer:
                self._scanner.syntax(self._cursor.take(blank + len(closer)))
                self._scanner.syntax(self._cursor.take((yield from self._cursor.blank())))
                return
            if fresh and char == "<" and (yield from self._calls(blank)):
                self._scanner.syntax(self._cursor.take(blank))
                return
            self._scanner.reasoning(self._cursor.take(blank or 1))

    def _calls(self, offset: int) -> Wait[bool]:
        """Whether a call of an offered tool begins a line here: some models forget to end their reasoning."""
        if not self._tools or not (yield from self._cursor.literal((CALL,), offset)):
            return False
        at = yield from self._cursor.blank(offset + len(CALL))
        if (yield from self._cursor.literal((FUNCTION,), at)):
            start = at + len(FUNCTION)
        else:
            for part in _HEAD:
                at = yield from self._cursor.blank(at)
                if not (yield from self._cursor.literal((part,), at)):
                    return False
                at += len(part)
            start = at
        end = yield from self._cursor.word(start)
        return self._cursor.text(start, end) in self._tools
