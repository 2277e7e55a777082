"""What the agent does, as blocks of the transcript: lines, and diffs in colour."""

from __future__ import annotations

from rich.style import Style

from ultra_tui.agent.lines import Tone
from ultra_tui.palette import Palette
from ultra_tui.text import Line, clean, wrap
from ultra_tui.transcript.blocks import Block

MAX_DIFF_ROWS = 60


def tone_style(tone: Tone, palette: Palette) -> Style:
    """The style of a tone."""
    return {
        "muted": palette.muted,
        "plain": palette.text,
        "good": palette.ok,
        "bad": palette.error,
        "warning": palette.warning,
    }[tone]


class EventBlock(Block):
    """One thing that happened."""

    def __init__(self, text: str, tone: Tone, gap: bool = False) -> None:
        super().__init__(gap)
        self.text = text
        self.tone: Tone = tone

    def lines(self, width: int, palette: Palette) -> list[Line]:
        return wrap([(clean(self.text), tone_style(self.tone, palette))], width)


class DiffBlock(Block):
    """The diff of one file, without its head: the line above names the file."""

    def __init__(self, diff: str) -> None:
        super().__init__(gap=False)
        self.diff = diff

    def lines(self, width: int, palette: Palette) -> list[Line]:
        return diff_lines(self.diff, width, palette, MAX_DIFF_ROWS)


class OutputBlock(Block):
    """What a command of the person's said, its end if it is long."""

    MAX_ROWS = 20

    def __init__(self, text: str) -> None:
        super().__init__(gap=False)
        self.text = text

    def lines(self, width: int, palette: Palette) -> list[Line]:
        rows = clean(self.text).rstrip("\n").split("\n")
        left = len(rows) - self.MAX_ROWS
        shown = [f"… {left:,} lines above", *rows[left:]] if left > 0 else rows
        return [line for row in shown for line in wrap([("  " + row, palette.muted)], width)]


def diff_lines(diff: str, width: int, palette: Palette, most: int) -> list[Line]:
    """A diff as rows, told apart by their signs as well as by colour; at most about ``most`` of them."""
    styles = {"+": palette.ok, "-": palette.error, "@": palette.muted}
    rows = [row for row in clean(diff).rstrip("\n").split("\n") if not row.startswith(("--- ", "+++ "))]
    lines: list[Line] = []
    for i, row in enumerate(rows):
        if len(lines) >= most:
            lines.append([(f"  … {len(rows) - i:,} more lines", palette.muted)])
            break
        lines += wrap([("  " + row, styles.get(row[:1], palette.muted))], width)
    return lines
