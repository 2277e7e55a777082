"""Untrusted text made safe to show, and its wrapping to a number of terminal cells."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style

Run = tuple[str, Style]
"""A piece of text in one style."""
Line = list[Run]
"""The runs of one row of the screen; never holds a line break."""

TAB = 4
"""Cells to which a tab is expanded."""

# What a terminal would obey instead of show: C0 and C1 controls, bidi overrides, invisible marks.
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200B, 0x200E, 0x200F, 0xFEFF, 0x2060]
_BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_UNSAFE: dict[int, str | None] = dict.fromkeys([*_CONTROLS, *_BIDI])
_UNSAFE.update({0x2028: " ", 0x2029: " "})
_UNSAFE.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
del _UNSAFE[0x0A], _UNSAFE[0x09]

_WIDE = "\u2e80-\u303f\u3040-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60\U00020000-\U0003fffd"
_CLOSING = "\u3001\u3002\uff0c\uff01\uff1f\uff1b\uff1a\u300d\u300f\uff09\u3011"
_WORD = re.compile(rf" +|[{_WIDE}][{_CLOSING}]*|[^ {_WIDE}]+")


# A joiner that joins no two symbols: terminals and width tables disagree about what follows it.
_LOOSE_JOINER = re.compile("(?<![^\x00-\u2000])\u200d|\u200d(?![^\x00-\u2000])")


def _joined(text: str) -> str:
    return _LOOSE_JOINER.sub("", text) if "\u200d" in text else text


def clean(text: str) -> str:
    """Drop everything but printable characters, tabs and line feeds. Works character by character, so
    that cleaning pieces and cleaning the whole give the same text."""
    return text.translate(_UNSAFE)


def _pieces(word: str, width: int) -> Iterator[tuple[int, int]]:
    """Cut a word wider than a line: (characters, cells) of each piece."""
    for piece in chop_cells(word, width):
        yield len(piece), cell_len(piece)


def _break_row(text: str, start: int, width: int) -> list[tuple[int, int]]:
    """Spans of the rows that hold ``text``, which has no line feed; ``start`` is added to them."""
    rows: list[tuple[int, int]] = []
    row = end = at = used = 0
    for match in _WORD.finditer(text):
        word = match.group()
        size = cell_len(word)
        if word[0] == " ":
            at += len(word)
            used += size
            continue
        if used + size > width and used:
            if end > row:
                rows.append((row, end))
            row, used = at, 0
        if size > width:
            for length, size in _pieces(word, width):
                if used + size > width and at > row:
                    rows.append((row, at))
                    row, used = at, 0
                at += length
                used += size
        else:
            at += len(word)
            used += size
        end = at
    rows.append((row, end))
    return [(start + a, start + b) for a, b in rows]


def break_spans(text: str, width: int) -> list[tuple[int, int]]:
    """Where ``text`` is cut into rows of at most ``width`` cells: at line feeds, between words, between
    wide characters, and inside words that fit no row. Spaces at a cut belong to no row."""
    spans: list[tuple[int, int]] = []
    start = 0
    for row in text.split("\n"):
        if cell_len(row) <= width:
            spans.append((start, start + len(row.rstrip(" "))))
        else:
            spans.extend(_break_row(row, start, width))
        start += len(row) + 1
    return spans


def wrap(runs: list[Run], width: int) -> list[Line]:
    """Wrap styled text, whose line feeds are kept, to rows of at most ``width`` cells."""
    width = max(2, width)
    runs = [(_joined(text.replace("\t", " " * TAB)), style) for text, style in runs]
    spans = break_spans("".join(text for text, _ in runs), width)
    lines: list[Line] = []
    index, base = 0, 0
    for start, end in spans:
        while index < len(runs) and base + len(runs[index][0]) <= start:
            base += len(runs[index][0])
            index += 1
        line: Line = []
        i, at = index, base
        while i < len(runs) and at < end:
            text, style = runs[i]
            piece = text[max(0, start - at) : end - at]
            if piece:
                line.append((piece, style))
            at += len(text)
            i += 1
        lines.append(line)
    return lines


def fold(runs: list[Run], width: int) -> list[Line]:
    """Cut one row of code every ``width`` cells; no space is lost."""
    width = max(2, width)
    lines: list[Line] = [[]]
    used = 0
    for text, style in ((_joined(text), style) for text, style in runs):
        if used + cell_len(text) <= width:
            lines[-1].append((text, style))
            used += cell_len(text)
            continue
        head = _fitting(text, width - used)
        if head:
            lines[-1].append((text[:head], style))
        for piece in chop_cells(text[head:], width):
            lines.append([(piece, style)])
            used = cell_len(piece)
    return lines


def _fitting(text: str, width: int) -> int:
    """How many characters of ``text`` fit ``width`` cells."""
    if width < 2:
        return 0
    first = chop_cells(text, width)[0]
    return len(first) if cell_len(first) <= width else 0


def line_width(line: Line) -> int:
    """Cells that a line takes."""
    return sum(cell_len(text) for text, _ in line)


def segments(line: Line) -> list[Segment]:
    """A line as the segments of rich."""
    return [Segment(text, style) for text, style in line]
