from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from ultra_tui.transcript.blocks import Block
from ultra_tui.transcript.layout import Layout

STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "remove", "resize"]), st.integers(0, 99), st.integers(0, 5))
)


@given(STEPS)
def test_rows_are_found_as_if_all_heights_were_added_up_each_time(steps: list[tuple[str, int, int]]) -> None:
    layout, heights = Layout(), []
    for step, at, height in steps:
        if step == "insert":
            index = at % (len(heights) + 1)
            layout.insert(index, Block(), height)
            heights.insert(index, height)
        elif heights and step == "remove":
            layout.remove(at % len(heights))
            del heights[at % len(heights)]
        elif heights:
            changed = layout.set_height(at % len(heights), height)
            assert changed == (heights[at % len(heights)] != height)
            heights[at % len(heights)] = height
        if at % 3 == 0:
            assert layout.rows == sum(heights)
    rows = [(index, offset) for index, height in enumerate(heights) for offset in range(height)]
    assert layout.rows == len(rows)
    assert [layout.locate(row) for row in range(len(rows))] == rows
    assert [layout.start(index) for index in range(len(heights))] == [
        sum(heights[:i]) for i in range(len(heights))
    ]
    layout.clear()
    assert layout.rows == len(layout) == 0
