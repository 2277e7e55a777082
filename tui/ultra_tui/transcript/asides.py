"""What a model writes beside its answer: its reasoning, and its calls of tools."""

from __future__ import annotations

import json
from typing import Any

from ultra_sdk import ToolCall
from ultra_sdk.protocol import merge_calls

from ultra_tui.palette import Palette
from ultra_tui.text import Line, clean, line_width, wrap
from ultra_tui.transcript.blocks import Block

LAST_ROWS = 6
"""Rows shown of reasoning that is still coming."""
LAST_CHARACTERS = 4000
"""Enough for those rows at any width; what is before them is not wrapped again and again."""
KEY = "Ctrl+R"


class ThoughtBlock(Block):
    """Reasoning, dimmed: its last rows while it comes, one line once the answer begins."""

    def __init__(self, expanded: bool = False) -> None:
        super().__init__()
        self.expanded = expanded
        """Whether all of it is shown."""
        self.coming = True
        self._pieces: list[str] = []

    def add(self, text: str) -> None:
        """More of it."""
        self._pieces.append(clean(text))
        self.forget()

    def close(self) -> None:
        """It is over."""
        self.coming = False
        self.forget()

    def expand(self, expanded: bool) -> None:
        """Show all of it, or not."""
        self.expanded = expanded
        self.forget()

    @property
    def text(self) -> str:
        """All of it."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def lines(self, width: int, palette: Palette) -> list[Line]:
        text = self.text.strip("\n")
        if not self.coming and not self.expanded:
            return [_row(f"▸ thought, {_words(text)}", f"{KEY} shows it", width, palette)]
        head = "▾ thinking" if self.coming else f"▾ thought, {_words(text)}"
        shown = text if self.expanded else text[-LAST_CHARACTERS:]
        rows = wrap([(shown, palette.quote)], width - 2)
        if not self.expanded:
            rows = rows[-LAST_ROWS:]
        hint = "" if self.coming else f"{KEY} hides it"
        return [_row(head, hint, width, palette), *([("  ", palette.quote), *row] for row in rows)]


class CallBlock(Block):
    """A call of a tool: its name and the beginning of its arguments, in one line."""

    def __init__(self, gap: bool) -> None:
        super().__init__(gap)
        self._call = ToolCall()

    def add(self, piece: ToolCall) -> None:
        """More of the call."""
        self._call = merge_calls(
            [self._call, ToolCall(0, piece.id, piece.name, piece.arguments, piece.error)]
        )[0]
        self.forget()

    def lines(self, width: int, palette: Palette) -> list[Line]:
        call = self._call
        sign, style = ("✕ ", palette.error) if call.error else ("→ ", palette.brand)
        name = clean(call.name or "no tool call")
        said = call.error or short_arguments(call.arguments)
        row: Line = [
            (sign, style),
            (f"{name}: " if call.error else f"{name} ", palette.strong),
            (" ".join(clean(said).split()), palette.muted),
        ]
        return [_cut(row, width, palette)]


def short_arguments(arguments: str) -> str:
    """``path=a.py lines=3`` for the JSON of arguments; of such that are still coming, what is there."""
    try:
        value: Any = json.loads(arguments or "{}")
    except ValueError:
        return arguments[:LAST_CHARACTERS]
    if not isinstance(value, dict):
        return arguments[:LAST_CHARACTERS]
    return " ".join(f"{key}={_short(item)}" for key, item in value.items())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    first, _, rest = text.partition("\n")
    return f"{first[:200]}…" if rest or len(first) > 200 else first


def _words(text: str) -> str:
    count = len(text.split())
    return f"{count:,} word{'' if count == 1 else 's'}"


def _row(text: str, hint: str, width: int, palette: Palette) -> Line:
    return _cut([(text + (f" · {hint}" if hint else ""), palette.muted)], width, palette)


def _cut(row: Line, width: int, palette: Palette) -> Line:
    """One row of it, with a sign where more would follow."""
    if line_width(row) <= width:
        return row
    return [*wrap([(text, style) for text, style in row], width - 1)[0], ("…", palette.muted)]
