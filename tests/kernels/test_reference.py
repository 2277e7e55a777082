"""The reference executor against float64 formulas and against itself: tiles, orders, chunks, blocks."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.counting_source import counted
from kernels.small_program import DIM, HEADS, HIDDEN, KV_HEADS, VALUE_SCALE, VALUES, VOCAB, build, weights
from torch import Tensor
from ultra_kernels.formats import FORMATS
from ultra_kernels.program import Program
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Packed, Sizes, Step, Stopped

SIZES = Sizes(rows=64, blocks=16, sequences=4)
TOKENS = [3, 7, 7, 49, 0, 12, 31, 5, 5, 18, 22, 9, 41, 2, 2, 30, 17, 8, 44, 1, 26]


def _step(tokens: Sequence[int], start: int = 0, blocks: Sequence[int] = (0, 1, 2, 3)) -> Step:
    rows = len(tokens)
    return Step(tokens, range(start, start + rows), [0] * rows, [blocks], list(range(rows)))


def _oracle(program: Program, tokens: Sequence[int], window: int, interleaved: bool) -> np.ndarray:
    """The model in float64 NumPy, written from the formulas and not from the executor."""
    w = {name: p.format.rows(p.data).double().numpy() for name, p in weights(program).items()}
    norm = lambda x, g: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * g  # noqa: E731
    positions = np.arange(len(tokens))

    def rope(x: np.ndarray) -> np.ndarray:
        out = x.copy()
        for pair, frequency in enumerate([1.0, float(np.float32(0.1))]):
            i, j = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + 2)
            cos, sin = np.cos(positions * frequency)[:, None], np.sin(positions * frequency)[:, None]
            out[..., i], out[..., j] = x[..., i] * cos - x[..., j] * sin, x[..., j] * cos + x[..., i] * sin
        return out

    x = w["embed"][list(tokens)]
    for layer in ("0.", "1."):
        h = norm(x, w[layer + "norm"])
        q, k, v = (
            (h @ w[f"{layer}w{n}"].T + w[f"{layer}b{n}"]).reshape(len(tokens), -1, dim)
            for n, dim in (("q", DIM), ("k", DIM), ("v", VALUES))
        )
        v = v * VALUE_SCALE
        sinks = w.get(layer + "sinks", np.full(HEADS, -np.inf)).reshape(-1)
        q, k = rope(norm(q, w[layer + "q_norm"])), rope(norm(k, w[layer + "k_norm"]))
        a = np.zeros((len(tokens), HEADS, VALUES))
        for row in positions:
            first = max(0, row - window + 1) if window else 0
            for head in range(HEADS):
                kv = head // (HEADS // KV_HEADS)
                scores = k[first : row + 1, kv] @ q[row, head] * DIM**-0.5
                p = np.exp(np.append(scores, sinks[head]))
                a[row, head] = p[:-1] / p.sum() @ v[first : row + 1, kv]
        x = x + a.reshape(len(tokens), -1) @ w[layer + "out"].T + w[layer + "bo"]
        h = norm(x, w[layer + "norm2"])
        gate, up = h @ w[layer + "gate"].T, h @ w[layer + "up"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[layer + "down"].T
    return norm(x, w["norm"]) @ w["head"].T


def _close(got: Tensor, want: Tensor | np.ndarray, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(got, torch.as_tensor(want, dtype=got.dtype), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("window", [0, 1, 5])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("sinks", [False, True])
def test_equals_the_formulas(window: int, interleaved: bool, sinks: bool) -> None:
    program = build(window=window, interleaved=interleaved, sinks=sinks)
    got = ReferenceExecutor(program, weights(program), SIZES).run(_step(TOKENS))
    _close(got, _oracle(program, TOKENS, window, interleaved), 1e-4)


def _shuffled(program: Program, seed: int) -> list[int]:
    """A random order of the tasks that respects the semaphores."""
    rng, done, order = random.Random(seed), [0] * program.semaphores, []
    left = set(range(len(program.tasks)))
    while left:
        free = [i for i in left if (t := program.tasks[i]).wait < 0 or done[t.wait] >= t.need]
        pick = rng.choice(free)
        left.remove(pick)
        order.append(pick)
        done[program.tasks[pick].signal] += 1
    return order


@given(tiles=st.integers(1, 60), seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_any_tiling_in_any_legal_order_gives_the_same(tiles: int, seed: int) -> None:
    """Activations start as NaN, so a tile that reads what nobody wrote shows."""
    whole, cut = build(), build(tiles)
    want = ReferenceExecutor(whole, weights(whole), SIZES).run(_step(TOKENS)).clone()
    executor = ReferenceExecutor(cut, weights(cut), SIZES)
    executor._admit(_step(TOKENS))
    executor._epoch = 1
    for index in _shuffled(cut, seed):
        executor.execute(cut.tasks[index])
    logits = executor._memory[cut.buffer("logits").id]
    assert isinstance(logits, Tensor)
    _close(logits, want)


@given(cuts=st.lists(st.integers(1, len(TOKENS) - 1), max_size=4, unique=True))
@settings(max_examples=25, deadline=None)
def test_chunks_of_any_size_give_the_same(cuts: list[int]) -> None:
    program = build()
    executor = ReferenceExecutor(program, weights(program), SIZES)
    want = executor.run(_step(TOKENS)).clone()
    edges = [0, *sorted(cuts), len(TOKENS)]
    parts = [executor.run(_step(TOKENS[a:b], a)).clone() for a, b in zip(edges, edges[1:], strict=False)]
    _close(torch.cat(parts), want)


def test_blocks_may_lie_anywhere() -> None:
    program = build()
    executor = ReferenceExecutor(program, weights(program), SIZES)
    want = executor.run(_step(TOKENS)).clone()
    _close(executor.run(_step(TOKENS, blocks=(9, 2))), want)


def test_sequences_of_one_step_do_not_see_each_other() -> None:
    program = build()
    executor = ReferenceExecutor(program, weights(program), SIZES)
    alone = [executor.run(_step(tokens)).clone() for tokens in (TOKENS[:5], TOKENS[5:14])]
    rows = [*range(5), *range(9)]
    step = Step(TOKENS[:14], rows, [2] * 5 + [1] * 9, [[0], [5, 6], [3]], range(14))
    _close(executor.run(step), torch.cat(alone))


def test_logits_come_for_the_rows_that_want_them() -> None:
    program = build()
    executor = ReferenceExecutor(program, weights(program), SIZES)
    everything = executor.run(_step(TOKENS)).clone()
    step = Step(TOKENS, range(21), [0] * 21, [[0, 1]], [20, 3])
    _close(executor.run(step), everything[[20, 3]])


def test_bfloat16_stays_near_float32() -> None:
    program = build()
    want = ReferenceExecutor(program, weights(program), SIZES).run(_step(TOKENS))
    executor = ReferenceExecutor(program, weights(program), SIZES, "bfloat16")
    got = executor.run(_step(TOKENS)).clone()
    assert float((got - want).norm() / want.norm()) < 0.02
    row_by_row = [executor.run(_step([token], i)).clone() for i, token in enumerate(TOKENS)]
    assert float((torch.cat(row_by_row) - want).norm() / want.norm()) < 0.02


def test_a_stopped_step_leaves_the_executor_sound() -> None:
    program = build(3)
    executor = ReferenceExecutor(program, weights(program), SIZES)
    want = executor.run(_step(TOKENS)).clone()
    polls = iter([False] * 7 + [True])
    with pytest.raises(Stopped):
        executor.run(_step(TOKENS), stop=lambda: next(polls))
    _close(executor.run(_step(TOKENS)), want, 0)


def test_a_step_too_large_is_refused() -> None:
    program = build()
    executor = ReferenceExecutor(program, weights(program), Sizes(rows=8, blocks=4))
    with pytest.raises(ValueError, match="21 rows"):
        executor.run(_step(TOKENS))
    with pytest.raises(ValueError, match="a step of 0 rows"):
        executor.run(_step([]))


def test_a_misshapen_weight_is_refused() -> None:
    program = build()
    wrong = weights(program)
    wrong["head"] = Packed(FORMATS["f32"], torch.zeros(VOCAB, HIDDEN * 4 + 4, dtype=torch.uint8))
    with pytest.raises(ValueError, match="head is"):
        ReferenceExecutor(program, wrong, SIZES)


def test_progress_counts_every_weight() -> None:
    program = build()
    seen: list[tuple[int, int]] = []
    ReferenceExecutor(program, weights(program), SIZES, progress=lambda *at: seen.append(at))
    total = len(program.weights())
    assert seen == [(i + 1, total) for i in range(total)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_weights_are_loaded_one_by_one(precision: str) -> None:
    program = build()
    at_hand = weights(program)
    late, counts = counted(at_hand)
    executor = ReferenceExecutor(program, late, SIZES, precision)
    assert counts.order == [buffer.name for buffer in program.weights()]
    assert counts.most == 2  # the table that is only gathered from stays packed
    at_once = ReferenceExecutor(program, at_hand, SIZES, precision)
    assert torch.equal(executor.run(_step(TOKENS)), at_once.run(_step(TOKENS)))
