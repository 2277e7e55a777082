"""Cuts a growing Markdown text into blocks that no later text can change."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markdown_it.tree import SyntaxTreeNode

from ultra_tui.markdown.parse import first_line, has_gap, parse

_LISTS = ("bullet_list", "ordered_list")


@dataclass(frozen=True)
class Closed:
    """A finished block; one item where the block is a list."""

    source: str
    gap: bool


@dataclass(frozen=True)
class FenceOpened:
    """A code block begins; its lines follow one by one."""

    language: str
    gap: bool


@dataclass(frozen=True)
class FenceLine:
    """One finished line of the open code block, without its line feed."""

    text: str


@dataclass(frozen=True)
class FenceClosed:
    """The open code block ends."""


Piece = Closed | FenceOpened | FenceLine | FenceClosed


@dataclass(frozen=True)
class _Fence:
    """The opening line of the code block that is open."""

    end: re.Pattern[str]
    indent: int


@dataclass(frozen=True)
class _Unit:
    """A block or list item found in the open text, and its first line there."""

    kind: str
    line: int
    mark: str = ""
    info: str = ""


class Splitter:
    """Feed text, receive closed pieces; ``tail`` is what is still open.

    Only finished lines decide where a block ends, so the pieces do not depend on how the text arrives.
    """

    def __init__(self) -> None:
        self.tail = ""
        """Text of the open block, or the unfinished line of an open code block."""
        self.tail_gap = False
        """Whether a blank row comes before the tail."""
        self._fence: _Fence | None = None
        self._last: str | None = None
        self._blank = False  # whether the source has a blank line before the tail

    @property
    def in_fence(self) -> bool:
        """Whether the tail is inside a code block."""
        return self._fence is not None

    def feed(self, text: str) -> list[Piece]:
        """Add text; return the pieces that it closes."""
        self.tail += text
        return self._cut() if "\n" in text else []

    def finish(self) -> list[Piece]:
        """End the text: everything still open is closed."""
        if self.tail and not self.tail.endswith("\n"):
            self.tail += "\n"
        pieces = self._cut()
        if self._fence is not None:
            self._fence = None
            pieces.append(FenceClosed())
        elif self.tail.strip():
            pieces.append(Closed(self.tail, self.tail_gap))
        self.tail = ""
        return pieces

    def _cut(self) -> list[Piece]:
        pieces: list[Piece] = []
        while True:
            if self._fence is not None:
                self._take_code(self._fence, pieces)
                if self._fence is not None:
                    return pieces
            if not self._take_blocks(pieces):
                return pieces

    def _take_code(self, fence: _Fence, pieces: list[Piece]) -> None:
        """Move finished lines out of the tail, up to the closing fence."""
        lines = self.tail.split("\n")
        for number, line in enumerate(lines[:-1]):
            if fence.end.fullmatch(line):
                pieces.append(FenceClosed())
                self._fence = None
                self.tail_gap = True
                self.tail = "\n".join(lines[number + 1 :])
                return
            pieces.append(FenceLine(_unindent(line, fence.indent)))
        self.tail = lines[-1]

    def _take_blocks(self, pieces: list[Piece]) -> bool:
        """Close all but the last block of the finished lines. True: a code block was entered."""
        whole, newline, rest = self.tail.rpartition("\n")
        if not newline:
            return False
        lines = whole.split("\n")
        units = [unit for node in parse(whole) for unit in _units(node)]
        if not units:
            return False
        fence = next((unit for unit in units if unit.kind == "fence"), None)
        last = fence or units[-1]
        for unit, following in zip(units, units[1:], strict=False):
            if unit is last:
                break
            source = "\n".join(lines[unit.line : following.line]) + "\n"
            pieces.append(Closed(source, self._gap(unit, lines)))
            self._last = unit.kind
        self.tail_gap = self._gap(last, lines)
        if last.line:
            self._blank = not lines[last.line - 1].strip()
        self.tail = "\n".join([*lines[last.line :], rest])
        if fence is None:
            return False
        self._open_fence(fence, pieces)
        return True

    def _gap(self, unit: _Unit, lines: list[str]) -> bool:
        blank = not lines[unit.line - 1].strip() if unit.line else self._blank
        return has_gap(self._last, unit.kind, blank)

    def _open_fence(self, unit: _Unit, pieces: list[Piece]) -> None:
        opening, _, self.tail = self.tail.partition("\n")
        end = re.compile(rf" {{0,3}}{re.escape(unit.mark[0])}{{{len(unit.mark)},}}[ \t]*")
        self._fence = _Fence(end, len(opening) - len(opening.lstrip(" ")))
        self._last = "fence"
        pieces.append(FenceOpened(language(unit.info), self.tail_gap))


def language(info: str) -> str:
    """The language named by the opening line of a code block, or the empty string."""
    words = info.split()
    return words[0].strip("{}.").split(":")[0].split(",")[0].lower() if words else ""


def _units(node: SyntaxTreeNode) -> list[_Unit]:
    if node.type in _LISTS:
        return [_Unit("item", first_line(item)) for item in node.children]
    return [_Unit(node.type, first_line(node), node.markup, node.info)]


def _unindent(line: str, indent: int) -> str:
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(indent, spaces) :]
