"""The draw: its distribution, its filters against naive ones, and that it depends on its key alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_kernels.sampling import (
    MASS_ONE,
    BadLogits,
    Draw,
    draw,
    gumbel,
    keep,
    log_softmax,
    mass,
)

LOGITS = np.array([2.0, 1.5, 1.0, 0.0, -1.0, 0.5, -3.0, 1.2], dtype=np.float32)


def _draws(how: Draw, count: int, logits: np.ndarray = LOGITS) -> np.ndarray:
    """Frequencies over ``count`` positions, penalties untouched by history."""
    tokens = [draw(logits, replace(how, seed=5, position=position)) for position in range(count)]
    return np.bincount(tokens, minlength=len(logits)) / count


def _history(how: Draw, count: int, logits: np.ndarray) -> list[int]:
    """``count`` tokens, each draw seeing those before it."""
    output: list[int] = []
    for position in range(count):
        output.append(draw(logits, replace(how, position=position, output=output)))
    return output


def _chi_square(observed: np.ndarray, p: np.ndarray, count: int) -> float:
    return float((count * (observed - p) ** 2 / p).sum())


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.8])
def test_the_distribution_is_the_softmax(temperature: float) -> None:
    """Chi-square with 7 degrees of freedom over 10,000 draws: 24.3 is the 0.1 % point."""
    p = np.exp(LOGITS / temperature)
    observed = _draws(Draw(temperature=temperature), 10_000)
    assert _chi_square(observed, p / p.sum(), 10_000) < 24.3


def test_seeds_and_positions_give_independent_noise() -> None:
    tokens = np.arange(50)
    noise = np.array([gumbel(seed, position, tokens) for seed in range(20) for position in range(20)])
    assert len(np.unique(noise)) == noise.size
    assert abs(noise.mean() - 0.5772) < 0.02 and abs(noise.std() - np.pi / 6**0.5) < 0.02
    correlation = np.corrcoef(noise)
    assert np.abs(correlation - np.eye(len(noise))).max() < 0.7


def test_a_draw_is_a_function_of_seed_and_position() -> None:
    hows = [Draw(temperature=1.0, seed=9, position=position) for position in range(50)]
    first = [draw(LOGITS, how) for how in hows]
    second = [draw(LOGITS, how) for how in reversed(hows)]
    assert first == second[::-1] and len(set(first)) > 2


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1e-4])
def test_tiny_temperatures_are_greedy(temperature: float) -> None:
    assert _draws(Draw(temperature=temperature), 50)[0] == 1.0


@pytest.mark.parametrize(
    ("how", "allowed"),
    [
        (Draw(temperature=50, top_k=1), {0}),
        (Draw(temperature=50, top_k=3), {0, 1, 7}),
        (Draw(temperature=1, top_p=1e-9), {0}),
        (Draw(temperature=1, min_p=1.0), {0}),
        (Draw(temperature=1, min_p=0.5), {0, 1}),
    ],
)
def test_filters_keep_what_they_say(how: Draw, allowed: set[int]) -> None:
    drawn = _draws(how, 300)
    assert {int(token) for token in np.flatnonzero(drawn)} == allowed


def _naive(scores: np.ndarray, top_k: int, top_p: float, min_p: float) -> set[int]:
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[: top_k or None]
    p = np.exp(scores[order] - scores[order[0]])
    p /= p.sum()
    kept, mass = [], 0.0
    for index, probability in zip(order, p, strict=True):
        if kept and mass >= top_p:
            break
        kept.append((index, probability))
        mass += probability
    return {index for index, probability in kept if probability >= min_p * p[0]}


@given(
    scores=st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 0.5, 2.0]), min_size=1, max_size=12),
    top_k=st.integers(0, 14),
    top_p=st.sampled_from([1e-9, 0.3, 0.77, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
)
@settings(max_examples=300, deadline=None)
def test_filters_equal_the_naive_ones(scores: list[float], top_k: int, top_p: float, min_p: float) -> None:
    array = np.array(scores) - max(scores)
    assert set(keep(array, top_k, top_p, min_p).tolist()) == _naive(array, top_k, top_p, min_p)


@given(st.lists(st.floats(-40, 0), min_size=1, max_size=50))
def test_mass_is_the_exponential(scores: list[float]) -> None:
    array = np.array([*scores, 0.0, -np.inf])
    np.testing.assert_allclose(mass(array) / MASS_ONE, np.exp(array), rtol=1e-12, atol=1.01 / MASS_ONE)
    assert mass(array)[-2] == MASS_ONE and mass(array)[-1] == 0


def test_repetition_penalty_sees_prompt_and_output() -> None:
    assert _history(Draw(repetition_penalty=10.0, prompt=[0]), 3, LOGITS) == [1, 7, 2]
    negative = np.array([-1.0, -1.1], dtype=np.float32)
    assert draw(negative, Draw(repetition_penalty=2.0, prompt=[0])) == 1


def test_presence_and_frequency_penalties_see_the_output_alone() -> None:
    flat = np.array([1.0, 0.9, 0.0], dtype=np.float32)
    assert _history(Draw(presence_penalty=0.5, prompt=[0, 0]), 4, flat) == [0, 1, 0, 0]
    assert _history(Draw(frequency_penalty=0.15), 4, flat) == [0, 1, 0, 1]


def test_logit_bias_moves_one_token() -> None:
    assert _draws(Draw(logit_bias={6: 100.0}), 5)[6] == 1.0
    assert _draws(Draw(temperature=1.0, logit_bias={0: -1000.0}), 200)[0] == 0.0


def test_a_token_that_is_ruled_out_is_never_drawn() -> None:
    logits = np.array([-np.inf, 0.0, -np.inf, 0.0], dtype=np.float32)
    assert set(np.flatnonzero(_draws(Draw(temperature=5), 100, logits))) == {1, 3}


@pytest.mark.parametrize("bad", [[1.0, np.nan], [np.nan, np.nan], [1.0, np.inf], [-np.inf, -np.inf]])
def test_logits_that_are_no_numbers_are_an_error_not_a_token(bad: list[float]) -> None:
    for how in (Draw(), Draw(temperature=1.0), Draw(temperature=1.0, top_k=1), Draw(logit_bias={0: 1.0})):
        with pytest.raises(BadLogits, match="NaN"):
            draw(np.array(bad, dtype=np.float32), how)


def test_log_softmax_sums_to_one() -> None:
    assert np.exp(log_softmax(LOGITS)).sum() == pytest.approx(1.0, abs=1e-12)
