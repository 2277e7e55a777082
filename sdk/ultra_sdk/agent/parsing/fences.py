"""Fenced blocks of Markdown, with fences inside of them where these can be told."""

from __future__ import annotations

import re
from dataclasses import dataclass

FENCE = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^`\r\n]*?)[ \t]*\r?")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block. ``start`` and ``end`` are the lines of its fences, from 0, in the whole text."""

    info: str
    content: str
    start: int
    end: int
    closed: bool
    """Whether it ends in a fence; otherwise the answer was cut off."""

    @property
    def language(self) -> str:
        """The first word of its info, in lower case."""
        return (self.info.split() or [""])[0].lower()


def fences(text: str) -> list[Fence]:
    """The outer fenced blocks of an answer.

    Inside a block, a fence that names a language opens an inner one, and the next bare fence closes that.
    """
    lines = text.split("\n")
    found: list[Fence] = []
    i = 0
    while i < len(lines):
        opening = FENCE.fullmatch(lines[i])
        if opening is None:
            i += 1
            continue
        end = _end(lines, i, opening[2])
        closed = end < len(lines)
        content = "".join(_shifted(line, len(opening[1])) + "\n" for line in lines[i + 1 : end])
        if not closed:
            content = content.removesuffix("\n")
        found.append(Fence(opening[3], content, i, end, closed))
        i = end + 1
    return found


def _shifted(line: str, indent: int) -> str:
    """A line without the indentation of its fence, as in a list, and without a carriage return."""
    own = len(line) - len(line.lstrip(" "))
    return line[min(own, indent) :].removesuffix("\r")


def _end(lines: list[str], start: int, mark: str) -> int:
    depth = 1
    for i in range(start + 1, len(lines)):
        fence = FENCE.fullmatch(lines[i])
        if fence is None or fence[2][0] != mark[0] or len(fence[2]) < len(mark):
            continue
        if fence[3]:
            depth += len(fence[2]) == len(mark)
            continue
        depth -= 1
        if depth == 0:
            return i
    return len(lines)
