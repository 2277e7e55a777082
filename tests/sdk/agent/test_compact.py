from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_sdk.agent.compact import compact, cut, without_old_results
from ultra_sdk.agent.conversation import Called, Entry, chars, groups, is_whole, rebuilt
from ultra_sdk.errors import EngineFailed


@st.composite
def conversations(draw: st.DrawFn) -> list[Entry]:
    """A task, answers with calls and their results, messages in between."""
    entries = [Entry("user", draw(st.text("ab\n", max_size=300)), task=True)]
    for number in range(draw(st.integers(0, 8))):
        calls = tuple(
            Called(f"c{number}.{i}", "write", {"path": "a", "content": draw(st.text("cd\n", max_size=400))})
            for i in range(draw(st.integers(0, 3)))
        )
        entries.append(Entry("assistant", draw(st.text("ef\n", max_size=300)), calls=calls))
        entries += [
            Entry("result", draw(st.text("gh\n", max_size=900)), each.id, each.tool) for each in calls
        ]
        if draw(st.booleans()):
            entries.append(Entry("user", draw(st.text("ij", max_size=200)), task=draw(st.booleans())))
    return entries


@settings(deadline=None)
@given(conversations(), st.integers(400, 4000), st.none() | st.text("xyz", max_size=3000))
def test_it_fits_and_no_call_is_parted_from_its_result(
    entries: list[Entry], budget: int, notes: str | None
) -> None:
    async def summarise(_: list[Entry]) -> str:
        if notes is None:
            raise EngineFailed("no")
        return notes

    short, how = asyncio.run(compact(entries, budget, summarise))
    assert chars(short) <= budget and is_whole(short)
    assert short and short[0].role == "user"
    assert groups(short)[-1][0].role == groups(entries)[-1][0].role
    if chars(entries) <= budget:
        assert how == "results"


def long(number: int) -> list[Entry]:
    return [
        Entry("assistant", f"look {number}", calls=(Called(f"c{number}", "bash", "ls"),)),
        Entry("result", f"{number} " * 300, f"c{number}", "bash"),
    ]


CONVERSATION = [Entry("user", "Task: count", task=True), *long(1), *long(2), *long(3), *long(4)]


def test_old_results_go_first_and_the_last_ones_stay() -> None:
    short = without_old_results(CONVERSATION)
    assert short[2].text == "[600 characters left out]" and short[-1] == CONVERSATION[-1]
    assert asyncio.run(compact(CONVERSATION, chars(short)))[1] == "results"


def test_a_summary_takes_the_place_of_the_rest_with_the_task() -> None:
    async def summarise(entries: list[Entry]) -> str:
        assert list(entries) == CONVERSATION
        return "Counted to two."

    short, how = asyncio.run(compact(CONVERSATION, 1200, summarise))
    assert how == "summary" and "Task: count" in short[0].text and "Counted to two." in short[0].text
    assert short[-1] == CONVERSATION[-1]


@pytest.mark.parametrize("notes", ["", "long " * 500])
def test_a_summary_that_is_none_or_too_long_is_not_used(notes: str) -> None:
    async def summarise(_: list[Entry]) -> str:
        return notes

    short, how = asyncio.run(compact(CONVERSATION, 900, summarise))
    assert how == "cut" and "Task: count" in short[0].text and chars(short) <= 900


def test_the_latest_task_survives() -> None:
    entries = [*CONVERSATION, Entry("user", "Task: second", task=True), *long(5), *long(6), *long(7)]
    assert "Task: second" in cut(entries, 1000)[0].text


def test_a_transcript_is_rebuilt_from_its_last_compaction() -> None:
    kept = [{"role": "user", "text": "short", "task": True}]
    records = [
        {"type": "user", "text": "long", "task": True},
        {"type": "assistant", "text": "look"},
        {"type": "call", "id": "c1", "tool": "bash", "arguments": "ls"},
        {"type": "result", "id": "c1", "tool": "bash", "ok": True, "text": "a"},
        {"type": "compaction", "entries": kept},
        {"type": "assistant", "text": "more"},
        {"type": "call", "id": "c2", "tool": "bash", "arguments": {"cmd": "ls"}},
    ]
    entries = rebuilt(records)
    assert [entry.text for entry in entries] == ["short", "more", "interrupted: it did not finish"]
    assert is_whole(entries) and entries[2].tool == "bash"
    assert is_whole(rebuilt(records[:4])) and is_whole(rebuilt(records[:3])) and rebuilt([]) == []
