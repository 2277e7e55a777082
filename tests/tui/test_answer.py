from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tui_kit import palette
from ultra_tui.transcript.answer import Answer
from ultra_tui.transcript.blocks import Block, CodeBlock

LOOK = (50, palette())
PIECES = [
    "# T\n",
    "text ",
    "more\n",
    "\n",
    "- a\n",
    "- b\n\n",
    "```py\n",
    "```\n",
    "def f():\n",
    "  '''doc\n",
    "'''",
]
PIECES += ["| a | b |\n", "|---|---|\n", "> q\n", "漢字", "\r\n", "\x1b[2J", "**b**", "1. x\n", "/* c\n"]


def strips(blocks: list[Block]) -> list[object]:
    return [list(strip) for block in blocks for strip in block.strips(LOOK)]


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.data())
@settings(max_examples=150, deadline=None)
def test_streamed_in_random_chunks_it_looks_as_if_it_came_at_once(
    parts: list[str], data: st.DataObject
) -> None:
    text = "".join(parts)
    whole: list[Block] = []
    answer = Answer(whole.append)
    answer.add(text)
    answer.finish()

    streamed: list[Block] = []
    answer = Answer(streamed.append)
    at = 0
    while at < len(text):
        size = data.draw(st.integers(1, 20))
        answer.add(text[at : at + size])
        at += size
        if data.draw(st.booleans()):
            tail = answer.flush()
            strips([*streamed, *([tail] if tail else [])])
    answer.finish()
    assert answer.source == text
    assert strips(streamed) == strips(whole)


def test_closed_blocks_and_lines_of_code_are_rendered_once() -> None:
    blocks: list[Block] = []
    answer = Answer(blocks.append)
    for number in range(50):
        for piece in (f"Paragraph {number}.\n", "\n", "```py\n", *(f"x = {n}\n" for n in range(20)), "```\n"):
            answer.add(piece)
            answer.flush()
            for block in blocks:
                block.strips(LOOK)
    answer.finish()
    assert len(blocks) == 100
    assert {block.renders for block in blocks} == {1}
    assert all(len(block.kept) == 22 for block in blocks if isinstance(block, CodeBlock))


def test_the_open_line_of_code_is_shown_and_replaced() -> None:
    blocks: list[Block] = []
    answer = Answer(blocks.append)
    answer.add("```py\nx = 1\ny =")
    answer.flush()
    assert [strip.text.strip() for strip in blocks[0].strips(LOOK)] == ["", "py", "x = 1", "y ="]
    answer.add(" 2\n")
    answer.flush()
    assert [strip.text.strip() for strip in blocks[0].strips(LOOK)] == ["", "py", "x = 1", "y = 2"]
    assert blocks[0].renders == 1
