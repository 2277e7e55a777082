"""Inline Markdown (emphasis, code, links) to styled runs."""

from __future__ import annotations

from markdown_it.tree import SyntaxTreeNode
from rich.style import Style

from ultra_tui.palette import Palette
from ultra_tui.text import Run

_MARKS = {
    "strong": Style(bold=True),
    "em": Style(italic=True),
    "s": Style(strike=True),
}


def inline_runs(node: SyntaxTreeNode, style: Style, palette: Palette) -> list[Run]:
    """The runs of an ``inline`` node's children; breaks become line feeds, as the model wrote them."""
    runs: list[Run] = []
    for child in node.children:
        runs.extend(_runs(child, style, palette))
    return runs


def _runs(node: SyntaxTreeNode, style: Style, palette: Palette) -> list[Run]:
    match node.type:
        case "softbreak" | "hardbreak":
            return [("\n", style)]
        case "code_inline":
            return [(node.content, style + palette.inline_code)]
        case "link" | "image":
            return _address(node, style, palette)
        case mark if mark in _MARKS:
            return inline_runs(node, style + _MARKS[mark], palette)
        case _:
            return [(node.content, style)] if node.content else inline_runs(node, style, palette)


def _address(node: SyntaxTreeNode, style: Style, palette: Palette) -> list[Run]:
    """A link shows where it goes, so that no text can pretend to be another address."""
    target = str(node.attrs.get("href") or node.attrs.get("src") or "")
    label = [(text, look + palette.link) for text, look in inline_runs(node, style, palette)]
    if "".join(text for text, _ in label) in (target, target.removeprefix("mailto:")):
        return label
    return [*label, (f" ({target})", style + palette.muted)] if target else label
