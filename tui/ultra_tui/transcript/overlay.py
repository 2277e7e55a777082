"""What is laid over finished rows: the count of new lines, and the selection."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.selection import Selection
from textual.strip import Strip

from ultra_tui.palette import Palette
from ultra_tui.transcript.blocks import MARGIN, Look


def overlay_chip(strip: Strip, unseen: int, look: Look) -> Strip:
    """The row with a chip at its right end that says how many lines are below."""
    width, palette = look
    text = f" ↓ {unseen:,} new line{'s' if unseen > 1 else ''} "
    start = max(0, width - cell_len(text) - 2)
    end = min(width, start + cell_len(text))
    return Strip.join([strip.crop(0, start), Strip([Segment(text, palette.chip)]), strip.crop(end, width)])


def overlay_selection(strip: Strip, span: tuple[int, int] | None, palette: Palette) -> Strip:
    """The row with the selected cells in the selection's colours; an end of -1 is the end of the row."""
    if span is None:
        return strip
    start, end = span
    end = strip.cell_length if end == -1 else min(end, strip.cell_length)
    if start >= end:
        return strip
    marked = Strip([Segment(text, palette.selection) for text, _, _ in strip.crop(start, end)])
    return Strip.join([strip.crop(0, start), marked, strip.crop(end)])


def selected_rows(selection: Selection, rows: list[Strip]) -> list[str]:
    """The text of the selected cells, without the margin and the room at the ends of rows."""
    texts = []
    for row, strip in enumerate(rows):
        span = selection.get_span(row)
        if span is not None:
            start, end = span
            cells = strip.crop(max(start, MARGIN), None if end == -1 else max(end, MARGIN))
            texts.append(cells.text.rstrip())
    return texts
