"""The draw: its distribution, its filters against naive ones, and that it depends on its key alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_engine.request import SamplingParams
from ultra_engine.sampling import Sampler, gumbel, keep, log_softmax

LOGITS = np.array([2.0, 1.5, 1.0, 0.0, -1.0, 0.5, -3.0, 1.2], dtype=np.float32)


def _draws(params: SamplingParams, count: int, logits: np.ndarray = LOGITS) -> np.ndarray:
    """Frequencies over ``count`` positions, penalties untouched by history."""
    tokens = [Sampler(params, 5, []).draw(logits, position) for position in range(count)]
    return np.bincount(tokens, minlength=len(logits)) / count


def _chi_square(observed: np.ndarray, p: np.ndarray, count: int) -> float:
    return float((count * (observed - p) ** 2 / p).sum())


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.8])
def test_the_distribution_is_the_softmax(temperature: float) -> None:
    """Chi-square with 7 degrees of freedom over 10,000 draws: 24.3 is the 0.1 % point."""
    p = np.exp(LOGITS / temperature)
    observed = _draws(SamplingParams(temperature=temperature), 10_000)
    assert _chi_square(observed, p / p.sum(), 10_000) < 24.3


def test_seeds_and_positions_give_independent_noise() -> None:
    tokens = np.arange(50)
    noise = np.array([gumbel(seed, position, tokens) for seed in range(20) for position in range(20)])
    assert len(np.unique(noise)) == noise.size
    assert abs(noise.mean() - 0.5772) < 0.02 and abs(noise.std() - np.pi / 6**0.5) < 0.02
    correlation = np.corrcoef(noise)
    assert np.abs(correlation - np.eye(len(noise))).max() < 0.7


def test_a_draw_is_a_function_of_seed_and_position() -> None:
    params = SamplingParams(temperature=1.0)
    first = [Sampler(params, 9, []).draw(LOGITS, position) for position in range(50)]
    second = [Sampler(params, 9, []).draw(LOGITS, position) for position in reversed(range(50))]
    assert first == second[::-1] and len(set(first)) > 2


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1e-4])
def test_tiny_temperatures_are_greedy(temperature: float) -> None:
    assert _draws(SamplingParams(temperature=temperature), 50)[0] == 1.0


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        (SamplingParams(temperature=50, top_k=1), {0}),
        (SamplingParams(temperature=50, top_k=3), {0, 1, 7}),
        (SamplingParams(temperature=1, top_p=1e-9), {0}),
        (SamplingParams(temperature=1, min_p=1.0), {0}),
        (SamplingParams(temperature=1, min_p=0.5), {0, 1}),
    ],
)
def test_filters_keep_what_they_say(params: SamplingParams, allowed: set[int]) -> None:
    drawn = _draws(params, 300)
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
    array = np.array(scores)
    assert set(keep(array, top_k, top_p, min_p).tolist()) == _naive(array, top_k, top_p, min_p)


def test_repetition_penalty_sees_prompt_and_output() -> None:
    sampler = Sampler(SamplingParams(repetition_penalty=10.0), 0, prompt=[0])
    assert [sampler.draw(LOGITS, i) for i in range(3)] == [1, 7, 2]
    negative = np.array([-1.0, -1.1], dtype=np.float32)
    assert Sampler(SamplingParams(repetition_penalty=2.0), 0, [0]).draw(negative, 0) == 1


def test_presence_and_frequency_penalties_see_the_output_alone() -> None:
    flat = np.array([1.0, 0.9, 0.0], dtype=np.float32)
    presence = Sampler(SamplingParams(presence_penalty=0.5), 0, prompt=[0, 0])
    assert [presence.draw(flat, i) for i in range(4)] == [0, 1, 0, 0]
    frequency = Sampler(SamplingParams(frequency_penalty=0.15), 0, prompt=[])
    assert [frequency.draw(flat, i) for i in range(4)] == [0, 1, 0, 1]


def test_logit_bias_moves_one_token() -> None:
    assert _draws(SamplingParams(logit_bias={6: 100.0}), 5)[6] == 1.0
    assert _draws(SamplingParams(temperature=1.0, logit_bias={0: -1000.0}), 200)[0] == 0.0


def test_a_token_that_is_ruled_out_is_never_drawn() -> None:
    logits = np.array([-np.inf, 0.0, -np.inf, 0.0], dtype=np.float32)
    assert set(np.flatnonzero(_draws(SamplingParams(temperature=5), 100, logits))) == {1, 3}


def test_nan_logits_are_an_error_not_a_token() -> None:
    for params in (SamplingParams(), SamplingParams(temperature=1.0)):
        with pytest.raises(ArithmeticError, match="NaN"):
            Sampler(params, 0, []).draw(np.array([1.0, np.nan], dtype=np.float32), 0)


def test_log_softmax_sums_to_one() -> None:
    assert np.exp(log_softmax(LOGITS)).sum() == pytest.approx(1.0, abs=1e-12)
