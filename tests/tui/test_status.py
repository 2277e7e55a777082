from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from ultra_tui.meter import Meter
from ultra_tui.status import state_words, status_parts

FULL = Meter(state="streaming", rate=38.44, ttft=0.2, context_used=1204, context_total=32768)


def test_with_room_everything_is_told() -> None:
    assert status_parts(FULL, 100, queued=2) == [
        "▶ answering",
        "2 queued",
        "38.4 tok/s",
        "first token 0.20 s",
        "context 1,204 / 32,768 (4%)",
    ]


def test_at_eighty_columns_all_figures_remain() -> None:
    assert status_parts(FULL, 62) == ["▶ answering", "38.4 tok/s", "first token 0.20 s", "4% context"]
    assert status_parts(FULL, 56) == ["▶ answering", "38.4 tok/s", "ttft 0.20 s", "4% context"]


@given(st.integers(14, 120))
def test_it_fits(width: int) -> None:
    assert cell_len(" · ".join(status_parts(FULL, width, queued=1))) <= width


@pytest.mark.parametrize(
    ("meter", "words"),
    [
        (Meter(state="starting", note="loading m"), "… loading m"),
        (Meter(state="starting"), "… starting engine"),
        (Meter(state="queued", position=3), "… queued, 3 ahead"),
        (Meter(state="prefill", progress=0.4), "… reading 40%"),
        (Meter(state="cancelled"), "■ stopped"),
        (Meter(state="failed"), "✕ failed"),
    ],
)
def test_states_have_a_word_and_a_sign(meter: Meter, words: str) -> None:
    assert state_words(meter) == words
