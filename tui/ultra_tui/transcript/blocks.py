"""What a transcript is made of: blocks that render themselves to strips, once for each width and palette."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from textual.strip import Strip

from ultra_tui.markdown.highlight import Highlighter, Tokens
from ultra_tui.markdown.render import code_label, code_line, render_markdown
from ultra_tui.palette import Palette
from ultra_tui.text import Line, clean, line_width, segments, wrap

WIDEST = 100
"""Cells beyond which text is not stretched: longer rows are hard to read."""
MARGIN = 2

Look = tuple[int, Palette]
"""What a rendering depends on: the width of the transcript in cells and the palette."""


class Block:
    """A part of the transcript. The strips are kept until the look changes."""

    def __init__(self, gap: bool = True) -> None:
        self.gap = gap
        """Whether a blank row comes before it."""
        self.renders = 0
        """How many times it was rendered."""
        self._look: Look | None = None
        self._strips: list[Strip] = []

    def is_fresh(self, look: Look) -> bool:
        """Whether the strips at hand are those of ``look``."""
        return self._look == look

    def strips(self, look: Look) -> list[Strip]:
        """The rows of this block with its gap, each as wide as the transcript."""
        if self._look != look:
            self._look = look
            self.renders += 1
            width, palette = look
            lines: list[Line] = [[]] if self.gap else []
            lines += self.lines(min(WIDEST, width - 2 * MARGIN), palette)
            self._strips = [to_strip(line, width, palette) for line in lines]
        return self._strips

    def forget(self) -> None:
        """Render anew the next time: what it shows has changed."""
        self._look = None

    @property
    def kept(self) -> list[Strip]:
        """The strips of the last rendering, fresh or not."""
        return self._strips

    def lines(self, width: int, palette: Palette) -> list[Line]:
        """Render the block without its gap to rows of ``width`` cells."""
        raise NotImplementedError


def to_strip(line: Line, width: int, palette: Palette) -> Strip:
    """A row with the left margin, cut or filled to ``width`` cells."""
    strip = Strip(segments([(" " * MARGIN, palette.text), *line]), MARGIN + line_width(line))
    return strip.adjust_cell_length(width, palette.text).simplify()


class MarkdownBlock(Block):
    """A closed piece of an answer."""

    def __init__(self, source: str, gap: bool) -> None:
        super().__init__(gap)
        self.source = source

    def lines(self, width: int, palette: Palette) -> list[Line]:
        return render_markdown(clean(self.source), width, palette)


class CodeBlock(Block):
    """A code block that may still grow; a line that came is highlighted and rendered once."""

    def __init__(self, language: str, gap: bool) -> None:
        super().__init__(gap)
        self.language = clean(language)
        self._tokens: list[Tokens] = []
        self._highlighter = Highlighter(self.language)
        self._open: Tokens = []

    def append(self, text: str) -> None:
        """Add a finished line."""
        self._open = []
        tokens = self._highlighter.line(clean(text))
        self._tokens.append(tokens)
        if self._look is not None:
            width, palette = self._look
            self._drop_open()
            self._strips.extend(self._rows(tokens, width, palette))
            self._closed = len(self._strips)

    def show_open(self, text: str) -> None:
        """Show the line that is not finished yet in place of the last one shown so."""
        self._open = self._highlighter.peek(clean(text)) if text else []
        if self._look is not None:
            width, palette = self._look
            self._drop_open()
            if self._open:
                self._strips.extend(self._rows(self._open, width, palette))

    _closed = 0
    """Strips of finished lines."""

    def _drop_open(self) -> None:
        del self._strips[self._closed :]

    def _rows(self, tokens: Tokens, width: int, palette: Palette) -> list[Strip]:
        inner = min(WIDEST, width - 2 * MARGIN)
        return [to_strip(line, width, palette) for line in code_line(tokens, inner, palette)]

    def strips(self, look: Look) -> list[Strip]:
        if self._look != look:
            super().strips(look)
            self._closed = len(self._strips)
            if self._open:
                self._strips.extend(self._rows(self._open, *look))
        return self._strips

    def lines(self, width: int, palette: Palette) -> list[Line]:
        lines = [code_label(self.language or "text", width, palette)]
        for tokens in self._tokens:
            lines.extend(code_line(tokens, width, palette))
        return lines


class UserBlock(Block):
    """What the person said, on a tinted panel with a bar."""

    LONGEST = 40
    """Rows shown of a long message; the model gets all of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def lines(self, width: int, palette: Palette) -> list[Line]:
        rows = self.text.split("\n", self.LONGEST)
        text = clean("\n".join(rows[: self.LONGEST]))[: self.LONGEST * width]
        lines = wrap([(text, palette.user)], width - 3)
        if len(rows) > self.LONGEST or len(text) < len(self.text) - self.text.count("\r"):
            total = self.text.count("\n") + 1
            lines.append([(f"… {total:,} lines, {len(self.text):,} characters", palette.user)])
        return [self._on_panel(line, width, palette) for line in lines]

    def _on_panel(self, line: Line, width: int, palette: Palette) -> Line:
        room = " " * max(0, width - 2 - line_width(line))
        return [("▌ ", palette.user_bar), *line, (room, palette.user)]


Kind = Literal["info", "stopped", "warning", "error"]
_SIGNS: dict[Kind, str] = {"info": "", "stopped": "■ ", "warning": "▲ ", "error": "✕ "}


class NoticeBlock(Block):
    """A word from the app itself, told apart by a sign as well as by colour."""

    def __init__(self, text: str, kind: Kind = "info", gap: bool = True) -> None:
        super().__init__(gap)
        self.text = text
        self.kind: Kind = kind

    def lines(self, width: int, palette: Palette) -> list[Line]:
        styles = {"info": palette.muted, "error": palette.error}
        style, sign = styles.get(self.kind, palette.warning), _SIGNS[self.kind]
        rows = wrap([(clean(self.text), style)], width - len(sign))
        return [[(sign if i == 0 else " " * len(sign), style), *row] for i, row in enumerate(rows)]


class DrawnBlock(Block):
    """Rows drawn by a function, such as the welcome or the list of commands."""

    def __init__(self, draw: Callable[[int, Palette], list[Line]], gap: bool = True) -> None:
        super().__init__(gap)
        self._draw = draw

    def lines(self, width: int, palette: Palette) -> list[Line]:
        return self._draw(width, palette)
