"""How many drafts: the best expected tokens per second, against trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_kernels.drafting import Offer
from ultra_kernels.policy import StepTimes, guess, plan


def offer(length: int, chance: float) -> Offer:
    return Offer([0] * length, chance, 0)


def times(*seconds: float) -> StepTimes:
    return StepTimes(np.array([0.0, *seconds]), fixed=True)


FLAT = times(*[1.0] * 40)


def test_free_rows_are_all_used_and_dear_ones_are_not() -> None:
    assert plan([offer(8, 0.5)], FLAT, 40) == [8]
    assert plan([offer(8, 0.9)], times(*range(1, 41)), 40) == [0]
    assert plan([offer(8, 0.0)], FLAT, 40) == [0]
    assert plan([offer(0, 0.0)], FLAT, 40) == [0]


def test_a_step_has_so_many_rows_at_most() -> None:
    assert sum(plan([offer(30, 0.9), offer(30, 0.8)], FLAT, 12)) == 10


def test_a_dear_row_is_crossed_for_what_lies_behind() -> None:
    """The fifth row costs, those after it do not: four drafts more are worth it, one is not."""
    assert plan([offer(12, 0.95)], times(1, 1, 1, 1, *[1.9] * 36), 40) == [12]
    assert plan([offer(4, 0.95)], times(1, 1, 1, 1, *[1.9] * 36), 40) == [3]


@given(
    offers=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([0.1, 0.35, 0.5, 0.8, 0.97])), min_size=1, max_size=3
    ),
    seconds=st.lists(st.floats(0.01, 1.0), min_size=15, max_size=15),
)
def test_no_other_choice_is_better(offers: list[tuple[int, float]], seconds: list[float]) -> None:
    costs = times(*np.cumsum(seconds))
    made = [offer(*each) for each in offers]

    def rate(counts: tuple[int, ...]) -> float:
        value = sum(o.chance**k for o, count in zip(made, counts, strict=True) for k in range(count + 1))
        return value / costs.of(len(made) + sum(counts))

    every = itertools.product(*(range(len(o.tokens) + 1) for o in made))
    assert rate(tuple(plan(made, costs, 15))) == pytest.approx(max(map(rate, every)))


def test_times_are_guessed_then_measured() -> None:
    learned = StepTimes.empty(8)
    assert [learned.of(rows) for rows in (1, 4)] == [1.0, guess(4)]
    learned.note(1, 0.03)
    assert learned.of(4) == pytest.approx(0.03 * guess(4))
    learned.note(4, 0.06)
    assert learned.of(4) == 0.06 and learned.of(1) == 0.03
    assert learned.of(5) == pytest.approx(0.06 * guess(5) / guess(4))
    assert learned.of(2) == pytest.approx(0.03 * guess(2))


def test_one_disturbed_step_does_not_spoil_a_time() -> None:
    learned = StepTimes.empty(4)
    learned.note(1, 0.03)
    learned.note(1, 30.0)
    assert learned.of(1) == pytest.approx(0.0375)
    for _ in range(40):
        learned.note(1, 0.01)
    assert learned.of(1) == pytest.approx(0.01, rel=0.01)


def test_fixed_times_stay() -> None:
    FLAT.note(1, 99.0)
    assert FLAT.of(1) == 1.0
