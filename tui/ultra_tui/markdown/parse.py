"""The dialect: CommonMark with tables and strikethrough; raw HTML and link definitions stay plain text."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

# Without definitions no block depends on a later one, which is what lets closed blocks be final.
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["reference", "html_block", "html_inline"])
)

HEAVY = frozenset({"heading", "fence", "code_block", "table", "hr", "blockquote"})
"""Kinds of blocks that stand apart from their neighbours even without a blank line in the source."""


def parse(source: str) -> list[SyntaxTreeNode]:
    """The top-level blocks of ``source``; each has a ``map`` of source lines."""
    return SyntaxTreeNode(_PARSER.parse(source)).children


def first_line(node: SyntaxTreeNode) -> int:
    """The source line on which a block begins."""
    return node.map[0] if node.map else 0


def has_gap(before: str | None, kind: str, blank: bool) -> bool:
    """Whether a blank row separates a block of ``kind`` from the one ``before`` it (None: the first);
    ``blank`` says that the source has one."""
    return before is not None and (blank or before in HEAVY or kind in HEAVY)
