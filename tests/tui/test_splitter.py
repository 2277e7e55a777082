from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_tui.markdown.parse import parse
from ultra_tui.markdown.splitter import Closed, FenceClosed, FenceLine, FenceOpened, Piece, Splitter, language


def split(*chunks: str) -> list[Piece]:
    splitter = Splitter()
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    return pieces + splitter.finish()


LINES = st.sampled_from(
    [
        "",
        "",
        "text",
        "more text",
        "- item",
        "  - inner",
        "* star",
        "1. one",
        "2. two",
        "10) ten",
        "   para in item",
    ]
    + [
        "# Title",
        "===",
        "---",
        "> quote",
        ">",
        "> - q",
        "```",
        "```py",
        "~~~",
        "````",
        "    indented",
        "\tcode",
    ]
    + [
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "a | b",
        "[x]: /url",
        "<div>",
        "**bold",
        "x = 1",
        "  ```",
        "-",
        "1.",
    ]
)
DOCUMENTS = st.lists(LINES, max_size=14).map("\n".join) | st.text("ab`~*-_#>|1. \n\t[](<", max_size=60)


@st.composite
def cut_documents(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(DOCUMENTS)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)) | {0, len(text)})
    return text, [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]


@given(cut_documents())
@settings(max_examples=300, deadline=None)
def test_the_pieces_do_not_depend_on_how_the_text_arrives(document: tuple[str, list[str]]) -> None:
    text, chunks = document
    assert split(*chunks) == split(text) == split(*text)


def kinds(pieces: list[Piece]) -> list[str]:
    found = []
    for piece in pieces:
        if isinstance(piece, Closed):
            nodes = parse(piece.source)
            found += ["item"] * len(nodes[0].children) if "list" in nodes[0].type else [nodes[0].type]
            assert len(nodes) == 1
        elif isinstance(piece, FenceOpened):
            found.append("fence")
    return found


@given(DOCUMENTS)
@settings(max_examples=300, deadline=None)
def test_the_blocks_are_those_of_the_whole_text(text: str) -> None:
    whole = []
    for node in parse(text):
        whole += ["item"] * len(node.children) if node.type.endswith("_list") else [node.type]
    assert kinds(split(text)) == whole


@given(DOCUMENTS)
@settings(max_examples=200, deadline=None)
def test_no_line_is_lost(text: str) -> None:
    kept = ""
    for piece in split(text):
        kept += piece.source if isinstance(piece, Closed) else getattr(piece, "text", "")
    letters = [char for char in text if char.isalnum()]
    fences = [char for node in parse(text) if node.type == "fence" for char in node.info if char.isalnum()]
    assert len([char for char in kept if char.isalnum()]) == len(letters) - len(fences)


def test_code_is_handed_on_line_by_line_before_the_block_ends() -> None:
    splitter = Splitter()
    assert splitter.feed("```python\na = 1\nb ") == [FenceOpened("python", False), FenceLine("a = 1")]
    assert splitter.in_fence and splitter.tail == "b "
    assert splitter.feed("= 2\n``") == [FenceLine("b = 2")]
    assert splitter.feed("`\n") == [FenceClosed()]
    assert not splitter.in_fence


def test_a_fence_ends_only_with_its_own_mark() -> None:
    pieces = split("````\n```\n~~~\n````   \nafter")
    assert pieces[1:3] == [FenceLine("```"), FenceLine("~~~")]
    assert pieces[3:] == [FenceClosed(), Closed("after\n", True)]


def test_list_items_close_one_by_one() -> None:
    splitter = Splitter()
    assert splitter.feed("- a\n- b\n") == [Closed("- a\n", False)]
    assert splitter.feed("\n- c\n") == [Closed("- b\n\n", False)]
    assert splitter.tail_gap


def test_an_unfinished_line_closes_nothing() -> None:
    splitter = Splitter()
    assert splitter.feed("1. a\n\n2") == []  # it may become the next item
    assert splitter.feed(". b\n") == [Closed("1. a\n\n", False)]


@pytest.mark.parametrize(
    ("info", "name"),
    [("", ""), ("python", "python"), ("Python title=x", "python"), ("{.js}", "js"), ("rust,ignore", "rust")],
)
def test_language(info: str, name: str) -> None:
    assert language(info) == name
