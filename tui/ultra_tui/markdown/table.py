"""Tables: columns as wide as they need, narrowed evenly where the screen is too small."""

from __future__ import annotations

from markdown_it.tree import SyntaxTreeNode

from ultra_tui.markdown.inline import inline_runs
from ultra_tui.palette import Palette
from ultra_tui.text import Line, Run, line_width, wrap

Cell = list[Run]
_SEPARATOR = " │ "
_LEAST = 3


def table_lines(node: SyntaxTreeNode, width: int, palette: Palette) -> list[Line]:
    """The rows of a table, cells wrapped, header in bold over a rule."""
    rows, aligns = _cells(node, palette)
    widths = _fit([_natural(column) for column in zip(*rows, strict=True)], width)
    lines: list[Line] = []
    for number, row in enumerate(rows):
        lines.extend(_row_lines(row, widths, aligns, palette))
        if number == 0:
            rule = "─┼─".join("─" * column for column in widths)
            lines.append([(rule, palette.rule)])
    return lines


def _cells(node: SyntaxTreeNode, palette: Palette) -> tuple[list[list[Cell]], list[str]]:
    rows: list[list[Cell]] = []
    aligns: list[str] = []
    for row in (row for part in node.children for row in part.children):
        cells = []
        for cell in row.children:
            style = palette.strong if cell.type == "th" else palette.text
            cells.append(inline_runs(cell.children[0], style, palette) if cell.children else [])
            if not rows:
                aligns.append(str(cell.attrs.get("style", "")).rpartition(":")[2])
        rows.append(cells)
    return rows, aligns


def _natural(column: tuple[Cell, ...]) -> int:
    return max(_LEAST, *(line_width(cell) for cell in column))


def _fit(widths: list[int], width: int) -> list[int]:
    """Narrow the widest columns until the row fits, but none below a few cells."""
    room = width - len(_SEPARATOR) * (len(widths) - 1)
    widths = list(widths)
    while sum(widths) > room and max(widths) > _LEAST:
        widest = max(widths)
        second = max([size for size in widths if size < widest], default=_LEAST)
        tied = [i for i, size in enumerate(widths) if size == widest]
        step = max(1, min(widest - max(second, _LEAST), (sum(widths) - room) // len(tied)))
        for i in tied:
            if sum(widths) > room:
                widths[i] -= min(step, widths[i] - _LEAST)
    return widths


def _row_lines(row: list[Cell], widths: list[int], aligns: list[str], palette: Palette) -> list[Line]:
    wrapped = [wrap(cell, size) for cell, size in zip(row, widths, strict=True)]
    lines: list[Line] = []
    for number in range(max(len(cell) for cell in wrapped)):
        line: Line = []
        for column, cell in enumerate(wrapped):
            if column:
                line.append((_SEPARATOR, palette.rule))
            piece = cell[number] if number < len(cell) else []
            line.extend(_aligned(piece, widths[column], aligns[column], palette))
        lines.append(line)
    return lines


def _aligned(line: Line, width: int, align: str, palette: Palette) -> Line:
    space = max(0, width - line_width(line))
    left = space if align == "right" else space // 2 if align == "center" else 0
    padded = [(" " * left, palette.text), *line, (" " * (space - left), palette.text)]
    return [run for run in padded if run[0]]
