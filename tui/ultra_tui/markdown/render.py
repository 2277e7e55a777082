"""Markdown blocks to rows of styled text."""

from __future__ import annotations

from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len
from rich.style import Style

from ultra_tui.markdown.highlight import Highlighter, Tokens
from ultra_tui.markdown.inline import inline_runs
from ultra_tui.markdown.parse import first_line, has_gap, parse
from ultra_tui.markdown.splitter import language
from ultra_tui.markdown.table import table_lines
from ultra_tui.palette import Palette
from ultra_tui.text import TAB, Line, Run, fold, line_width, wrap

_TITLE = Style(underline=True)
_BULLETS = ("•", "◦", "▪")
_DEEPEST = 12
"""Nesting beyond which blocks are no longer indented."""


def render_markdown(source: str, width: int, palette: Palette) -> list[Line]:
    """The rows of a whole text, at most ``width`` cells wide."""
    return _Renderer(source.split("\n"), palette).siblings(parse(source), width, 0)


def code_line(tokens: Tokens, width: int, palette: Palette) -> list[Line]:
    """The rows of one line of code on its panel, ``width`` cells wide, which includes a margin."""
    runs: list[Run] = []
    column = 0
    for kind, text in tokens:
        if "\t" in text:
            text = _expand(text, column)
        runs.append((text, palette.token(kind)))
        column += len(text)
    return [_panel(line, width, palette) for line in fold(runs, width - 2)]


def code_label(name: str, width: int, palette: Palette) -> Line:
    """The first row of a code block's panel, which names its language."""
    label = name[: max(0, width - 2)]
    room = " " * max(1, width - 1 - cell_len(label))
    return [(room, palette.code), (label, palette.code_label), (" ", palette.code)]


def _panel(line: Line, width: int, palette: Palette) -> Line:
    room = " " * max(0, width - 1 - line_width(line))
    return [(" ", palette.code), *line, (room, palette.code)]


def _expand(text: str, column: int) -> str:
    out = ""
    for char in text:
        out += " " * (TAB - (column + len(out)) % TAB) if char == "\t" else char
    return out


class _Renderer:
    """Renders the blocks of one source text."""

    def __init__(self, lines: list[str], palette: Palette) -> None:
        self._lines = lines
        self._palette = palette

    def siblings(self, nodes: list[SyntaxTreeNode], width: int, depth: int) -> list[Line]:
        """Blocks one under another, with blank rows where the source or their kinds ask for them."""
        lines: list[Line] = []
        before: str | None = None
        for node in nodes:
            if has_gap(before, node.type, self._blank_before(node)):
                lines.append([])
            lines.extend(self._block(node, max(8, width), depth))
            before = node.type
        return lines

    def _blank_before(self, node: SyntaxTreeNode) -> bool:
        line = first_line(node)
        return line > 0 and not self._lines[line - 1].strip(" \t>")

    def _block(self, node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
        palette = self._palette
        match node.type:
            case "heading":
                style = palette.heading + _TITLE if node.tag == "h1" else palette.heading
                return wrap(inline_runs(node.children[0], style, palette), width)
            case "bullet_list" | "ordered_list":
                return self._list(node, width, depth)
            case "blockquote":
                bar = [("▎ ", palette.rule)]
                return [bar + line for line in self.siblings(node.children, width - 2, depth + 1)]
            case "fence" | "code_block":
                return self._code(node, width)
            case "table":
                return table_lines(node, width, palette)
            case "hr":
                return [[("─" * width, palette.rule)]]
            case _:
                runs = [run for child in node.children for run in inline_runs(child, palette.text, palette)]
                return wrap(runs, width)

    def _code(self, node: SyntaxTreeNode, width: int) -> list[Line]:
        name = language(node.info)
        highlighter = Highlighter(name)
        lines = [code_label(name, width, self._palette)] if name else []
        for text in node.content.removesuffix("\n").split("\n"):
            lines.extend(code_line(highlighter.line(text), width, self._palette))
        return lines

    def _list(self, node: SyntaxTreeNode, width: int, depth: int) -> list[Line]:
        lines: list[Line] = []
        for number, item in enumerate(node.children):
            if number and self._blank_before(item):
                lines.append([])
            bullet = _BULLETS[min(depth, len(_BULLETS) - 1)]
            mark = f"{item.info}{item.markup} " if node.type == "ordered_list" else f"{bullet} "
            indent = 0 if depth > _DEEPEST else len(mark)
            body = self.siblings(item.children, width - indent, depth + 1) or [[]]
            lines.append([(mark, self._palette.bullet), *body[0]])
            lines.extend([(" " * indent, self._palette.text), *line] if line else line for line in body[1:])
        return lines
