"""A row's logits are the same bits whatever else is in its step, however it is tiled, on any thread count."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.cpu.quantised_program import build, steps_of, weights
from torch import Tensor
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.formats import FORMATS
from ultra_kernels.step import Sizes, Step

from kernels import small_program

SIZES = Sizes(rows=64, blocks=16, sequences=3)
TOKENS = [3, 7, 7, 49, 0, 12, 31, 5, 5, 18, 22, 9, 41, 2, 2, 30, 17, 8, 44, 1, 26]


def logits(executor: CpuExecutor, steps: list[Step]) -> Tensor:
    return torch.cat([executor.run(step) for step in steps])


@pytest.mark.parametrize("format", FORMATS)
def test_one_row_eight_rows_all_rows(format: str, level: str) -> None:
    """Also where blocks are made ready for many rows, some columns at a time."""
    program, tokens = build(3, wide=2304), [*TOKENS * 3, 11]
    executor = CpuExecutor(program, weights(program, format), SIZES, 2)
    want = logits(executor, steps_of(tokens))
    assert want.isfinite().all()
    for counts in ([1] * 21 + [43], [8, 8, 5, 33, 10], [2, 3, 4, 5, 7, 19, 23, 1], [63, 1]):
        assert torch.equal(logits(executor, steps_of(tokens, counts)), want), counts


@given(cuts=st.lists(st.integers(1, 20), max_size=6, unique=True), tiles=st.integers(1, 30))
@settings(max_examples=20, deadline=None)
def test_any_cuts_and_any_tiles(cuts: list[int], tiles: int) -> None:
    edges = [0, *sorted(cuts), 21]
    counts = [b - a for a, b in zip(edges, edges[1:], strict=False)]
    packed = weights(build(), "q4_k", seed=4)
    want = logits(CpuExecutor(build(window=9), packed, SIZES, 1), steps_of(TOKENS))
    executor = CpuExecutor(build(tiles, window=9), packed, SIZES, 3)
    assert torch.equal(logits(executor, steps_of(TOKENS, counts)), want)


@pytest.mark.parametrize("window", [0, 270])
def test_long_contexts(window: int) -> None:
    """Rows at the edges of pieces, alone and in the middle of a chunk: the parts merge alike."""
    sizes, tokens = Sizes(rows=900, blocks=64), [(11 * i) % 50 for i in range(900)]
    program = small_program.build(7, window=window, sinks=True)
    executor = CpuExecutor(program, small_program.weights(program), sizes, 3)
    whole = executor.run(Step(tokens, range(900), [0] * 900, [range(64)], range(900)))
    for start, count in ((0, 1), (255, 1), (256, 3), (511, 2), (767, 33), (899, 1)):
        rows = range(start, start + count)
        step = Step(tokens[start : start + count], rows, [0] * count, [range(64)], range(count))
        assert torch.equal(executor.run(step), whole[start : start + count]), start


def test_other_sequences_in_the_step_change_nothing() -> None:
    executor = CpuExecutor(build(2), weights(build(), "q5_0"), SIZES, 2)
    want = executor.run(Step(TOKENS, range(21), [0] * 21, [[4, 5]], range(21)))
    both = Step(TOKENS * 2, [*range(21)] * 2, [1] * 21 + [0] * 21, [[7, 6], [2, 1]], range(42))
    got = executor.run(both)
    assert torch.equal(got[:21], want) and torch.equal(got[21:], want)
