"""Reasoning and tool calls in the transcript: beside the answer, never in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tui_kit import ask, chatting, enter, palette, plain, shown, until
from ultra_sdk import ToolCall
from ultra_sdk.testing import Answer as Says
from ultra_sdk.testing import FakeEngine, Thought
from ultra_tui.transcript.answer import Answer
from ultra_tui.transcript.asides import LAST_ROWS, CallBlock, ThoughtBlock, short_arguments
from ultra_tui.transcript.blocks import Block

WIDTH = 40
CALL = ToolCall(0, "c1", "read", '{"path": "a.py", "lines": 3}')


def rows(block: ThoughtBlock | CallBlock, width: int = WIDTH) -> list[str]:
    return plain(block.lines(width, palette()))


def test_reasoning_shows_its_last_rows_then_one_line_then_all_of_it() -> None:
    block = ThoughtBlock()
    block.add("first " * 10)
    assert rows(block)[0] == "▾ thinking" and len(rows(block)) == 3
    block.add("\n".join(f"row {number}" for number in range(20)) + "\x1b[2J")
    assert len(rows(block)) == 1 + LAST_ROWS and rows(block)[-1] == "  row 19[2J"
    block.close()
    assert rows(block) == ["▸ thought, 50 words · Ctrl+R shows it"]
    block.expand(True)
    assert rows(block)[0] == "▾ thought, 50 words · Ctrl+R hides it" and len(rows(block)) > 20
    one = ThoughtBlock()
    one.add("[bold]hm")
    one.close()
    assert rows(one) == ["▸ thought, 1 word · Ctrl+R shows it"]
    assert all(len(row) <= 12 for row in rows(one, 12))


@pytest.mark.parametrize(
    ("arguments", "short"),
    [
        ('{"path": "a.py", "lines": 3}', "path=a.py lines=3"),
        ('{"content": "x = 1\\ny = 2\\n", "all": true}', "content=x = 1… all=true"),
        ('{"path": "a', '{"path": "a'),
        ("", ""),
        ('"ls -l"', '"ls -l"'),
        ('{"a": {"b": [1]}}', 'a={"b": [1]}'),
    ],
)
def test_short_arguments(arguments: str, short: str) -> None:
    assert short_arguments(arguments) == short


def test_a_call_is_one_line_however_long() -> None:
    block = CallBlock(True)
    block.add(ToolCall(2, "c1", "bash"))
    block.add(ToolCall(2, arguments='{"cmd": "echo \\u001b[2J'))
    block.add(ToolCall(2, arguments=" and much more of it than fits into a row" + '\\nrm"}'))
    [row] = rows(block)
    assert row.startswith("→ bash cmd=echo [2J and") and row.endswith("…") and len(row) <= WIDTH
    assert rows(block, 100) == ["→ bash cmd=echo [2J and much more of it than fits into a row…"]
    block.add(ToolCall(2, error="a string is cut off"))
    assert rows(block) == ["✕ bash: a string is cut off"]
    nameless = CallBlock(True)
    nameless.add(ToolCall(0, arguments="<tool_call></tool_call>", error="the tool call is empty"))
    assert rows(nameless, 60) == ["✕ no tool call: the tool call is empty"]


parts = st.lists(
    st.one_of(
        st.sampled_from(["a ", "b\n", "\n", "```py\n", "```\n", "- c\n"]),
        st.sampled_from([("hm ",), ("so\n",)]),
        st.builds(ToolCall, st.integers(0, 2), arguments=st.sampled_from(["{", "}"])),
    ),
    max_size=20,
)


@given(parts, st.sets(st.integers(0, 20)))
@settings(deadline=None)
def test_however_often_it_is_flushed_it_looks_the_same(script: list[object], flushes: set[int]) -> None:
    def play(flushed: set[int]) -> list[object]:
        blocks: list[Block] = []
        answer = Answer(blocks.append)
        for index, part in enumerate(script):
            if isinstance(part, ToolCall):
                answer.call(part)
            elif isinstance(part, tuple):
                answer.think(part[0])
            else:
                answer.add(str(part))
            if index in flushed:
                answer.flush()
        answer.finish()
        assert answer.source == "".join(part for part in script if isinstance(part, str))
        return [list(strip) for block in blocks for strip in block.strips((WIDTH, palette()))]

    assert play(flushes) == play(set())


SCRIPT = Says(
    [
        *[Thought(f"Let me think about row {number}.\n") for number in range(30)],
        "The **answer**.\n",
        CALL,
        ToolCall(1, "c2", "bash", '{"cmd": "ls"}'),
        "And more.",
    ]
)


async def test_reasoning_collapses_when_the_answer_begins_and_opens_by_a_key() -> None:
    with FakeEngine(SCRIPT) as fake:
        async with chatting(fake, size=(60, 20)) as (app, pilot):
            await ask(app, pilot, "go")
            text = shown(app.transcript)
            assert "row 29" not in text and "▸ thought, 180 words · Ctrl+R shows it" in text
            assert (
                "shows it\n\n  The answer.\n\n  → read path=a.py lines=3\n  → bash cmd=ls\n\n  And more.\n"
                in text
            )
            assert app.session.last_answer == "The **answer**.\nAnd more."
            height = app.transcript.record.rows
            await pilot.press("ctrl+r")
            assert "row 0.\n    Let me think about row 1." in shown(app.transcript)
            assert app.transcript.record.rows == height + 30 and app.transcript.following
            await pilot.resize_terminal(40, 20)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: app.clock is not None and not app.clock.running)
            assert "▸ thought" in shown(app.transcript) and "row 0" not in shown(app.transcript)
            await ask(app, pilot, "again")
            assert shown(app.transcript).count("▸ thought") == 2


async def test_reasoning_is_seen_while_it_comes_and_stays_if_nothing_follows() -> None:
    with FakeEngine(Says([Thought("Let me "), Thought("see.")], then="hang")) as fake:
        async with chatting(fake) as (app, pilot):
            await enter(app, pilot, "go")
            await until(pilot, lambda: "▾ thinking\n    Let me see." in shown(app.transcript))
            await pilot.press("escape")
            text = shown(app.transcript)
            assert "▾ thought, 3 words · Ctrl+R hides it\n    Let me see.\n" in text and "■ stopped" in text
            assert app.session.messages == []
