"""Merged deltas say what the single ones said, in the same order."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.protocol import Delta, Run, ToolCall, merge_calls

Said = list[tuple[str, str]]

deltas = st.lists(
    st.builds(
        lambda thought, text, calls: Delta("a", 0, text=text, count=1, reasoning=thought, tool_calls=calls),
        st.sampled_from(["", "", "r", "s"]),
        st.sampled_from(["", "", "x", "y"]),
        st.lists(st.builds(ToolCall, index=st.integers(0, 1), arguments=st.sampled_from("{}")), max_size=2),
    ),
    max_size=12,
)


def said(delta: Delta) -> Said:
    parts = [("reasoning", delta.reasoning), ("text", delta.text)]
    parts += [(f"call {call.index}", call.arguments) for call in delta.tool_calls]
    return [part for part in parts if part[1]]


def joined(parts: Said) -> Said:
    return [
        (kind, "".join(text for _, text in own)) for kind, own in groupby(parts, key=lambda part: part[0])
    ]


@given(deltas)
def test_runs_keep_the_order_of_kinds_and_lose_nothing(script: list[Delta]) -> None:
    runs: list[Run] = []
    for delta in script:
        if not runs or not runs[-1].add(delta):
            runs.append(Run(delta))
    out = [run.merged() for run in runs]
    assert sum(delta.count for delta in out) == len(script)

    def kinds(found: list[Delta]) -> Said:
        """The calls of one stretch by index: which of them got a piece first does not matter."""
        stretches = groupby(
            [part for delta in found for part in said(delta)], key=lambda part: part[0].startswith("call")
        )
        return [
            part
            for calls, own in stretches
            for part in joined(sorted(own, key=lambda part: part[0]) if calls else list(own))
        ]

    assert kinds(out) == kinds(script)


def test_text_after_a_call_begins_a_new_message() -> None:
    run = Run(Delta("a", 0, reasoning="r", count=1))
    assert run.add(Delta("a", 0, text="t", count=1)) and run.add(Delta("a", 0, count=1))
    assert run.add(Delta("a", 0, tool_calls=[ToolCall(0, "c", "f")], count=1))
    assert not run.add(Delta("a", 0, text="t", count=1))
    assert not run.add(Delta("a", 0, reasoning="r", count=1))
    assert run.merged().count == 4


def test_pieces_of_calls() -> None:
    pieces = [
        ToolCall(0, "a", "f", "{"),
        ToolCall(1, "b", "g"),
        ToolCall(0, arguments="}"),
        ToolCall(1, error="cut"),
    ]
    assert merge_calls(pieces) == [ToolCall(0, "a", "f", "{}"), ToolCall(1, "b", "g", "", "cut")]
