"""Fences of Markdown in streamed text: what is in one is code, in which nothing is looked for."""

from __future__ import annotations

import re

from .cursor import Cursor, Wait

_LINE = re.compile(r"(`{3,}|~{3,})[ \t]*([^`\r\n]*?)[ \t]*\r?")
MAX_INFO = 80
CALL_LANGUAGES = ("json", "tool_call", "tool", "tool_code", "jsonc", "json5", "xml", "")
"""Languages of fences in which models that were not taught a form put their calls."""


class Fence:
    """An open block of code. Inside it a fence with a language opens an inner block."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._depth = 1
        self._line: str | None = ""  # the line so far; None once it is too long to be a fence

    def see(self, text: str) -> None:
        """Take note of more text."""
        for part in re.findall(r"[^\n]+|\n", text):
            if part == "\n":
                self._end_line()
            elif self._line is not None:
                self._line += part
                if len(self._line) > len(self._mark) + MAX_INFO:
                    self._line = None

    @property
    def open(self) -> bool:
        """Whether the next line is still inside."""
        return self._depth > 0

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        found = _LINE.fullmatch(re.sub(r"^ {1,3}(?! )", "", line)) if line else None
        if found is None or found[1][0] != self._mark[0] or len(found[1]) < len(self._mark):
            return
        if found[2]:
            self._depth += len(found[1]) == len(self._mark)
        else:
            self._depth -= 1


def opening(cursor: Cursor) -> Wait[tuple[str, str, int] | None]:
    """The mark, the language and the length with its line break of the fence that begins at the cursor."""
    end = 0
    while (char := (yield from cursor.char(end))) not in ("\n", ""):
        end += 1
        mark = len(cursor.text(0, end)) - len(cursor.text(0, end).lstrip(cursor.text(0, 1)))
        if end > mark + MAX_INFO or (mark == end and mark > MAX_INFO) or (mark < 3 and end > mark):
            return None
    found = _LINE.fullmatch(cursor.text(0, end))
    if found is None:
        return None
    language = (found[2].split() or [""])[0].lower()
    return found[1], language, end + len(char)
