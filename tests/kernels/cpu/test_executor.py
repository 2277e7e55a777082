"""The CPU machine against the reference executor in float32, at every instruction-set level."""

import numpy as np
import pytest
import torch
from kernels.cpu.quantised_program import build, steps_of, weights
from torch import Tensor
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.formats import FORMATS
from ultra_kernels.program import Kind, Program
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Packed, Sizes, Step

from kernels import small_program

SIZES = Sizes(rows=64, blocks=16, sequences=4)
TOKENS = [3, 7, 7, 49, 0, 12, 31, 5, 5, 18, 22, 9, 41, 2, 2, 30, 17, 8, 44, 1, 26]

FLOAT, INTEGER = 1e-3, 2.5e-2
"""Relative error of the logits: float16 KV alone, and with activations in int8."""


def poison(executor: CpuExecutor) -> None:
    """NaN wherever nobody has written."""
    for buffer in executor.program.buffers:
        if buffer.kind in (Kind.ACTIVATION, Kind.STATE):
            executor._memory[buffer.id].fill(np.nan)


def run(program: Program, packed: dict[str, Packed], step: Step, threads: int = 1) -> Tensor:
    executor = CpuExecutor(program, packed, SIZES, threads)
    poison(executor)
    return executor.run(step)


def error(got: Tensor, want: Tensor) -> float:
    return float((got - want).norm() / want.norm())


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("format", FORMATS)
def test_every_format_agrees(format: str, threads: int, level: str) -> None:
    """Three threads and five tiles: no tile is a whole number of groups of eight rows."""
    (step,) = steps_of(TOKENS)
    packed = weights(build(), format)
    want = ReferenceExecutor(build(), packed, SIZES).run(step)
    got = run(build(5), packed, step, threads)
    assert error(got, want) < (FLOAT if FORMATS[format].block in (1, 128) else INTEGER)


@pytest.mark.parametrize("window", [0, 1, 5, 17])
@pytest.mark.parametrize("interleaved", [False, True])
def test_small_odd_sizes_agree(window: int, interleaved: bool, level: str) -> None:
    """Heads of 8, rows of 24 and 40, RoPE on half of a head: nothing fills a vector."""
    program = small_program.build(4, window=window, interleaved=interleaved)
    packed = small_program.weights(program)
    (step,) = steps_of(TOKENS)
    want = ReferenceExecutor(program, packed, SIZES).run(step)
    assert error(run(program, packed, step, 3), want) < FLOAT


@pytest.mark.parametrize("window", [0, 300])
@pytest.mark.parametrize("sinks", [False, True])
def test_long_contexts_agree(window: int, sinks: bool, level: str) -> None:
    """Five pieces of keys, so that the parts of several splits are merged; 700 rows in one step, then one."""
    sizes = Sizes(rows=1100, blocks=72)
    program = small_program.build(5, window=window, sinks=sinks)
    packed = small_program.weights(program)
    tokens = [(7 * i) % 50 for i in range(1101)]
    first = Step(tokens[:1100], range(1100), [0] * 1100, [range(72)], [0, 255, 256, 600, 1099])
    last = Step(tokens[1100:], [1100], [0], [range(72)], [0])
    want, got = ReferenceExecutor(program, packed, sizes), CpuExecutor(program, packed, sizes, 2)
    poison(got)
    for step in (first, last):
        assert error(got.run(step), want.run(step)) < FLOAT


@pytest.mark.parametrize("format", ["q4_0", "q8_0", "q5_1", "mxfp4"])
def test_blocks_of_32_divide_what_256_does_not(format: str, level: str) -> None:
    program = build(3, hidden=96, wide=160)
    packed = weights(program, format)
    (step,) = steps_of(TOKENS)
    want = ReferenceExecutor(program, packed, SIZES).run(step)
    assert error(run(program, packed, step, 2), want) < INTEGER


def test_formats_may_be_mixed(level: str) -> None:
    program = build(2)
    packed = weights(program, "q4_k")
    others = weights(program, "q8_0") | {}
    for name in ("wv", "down", "gate"):
        packed[name] = others[name]
    packed["out"] = weights(program, "f16")["out"]
    (step,) = steps_of(TOKENS)
    want = ReferenceExecutor(program, packed, SIZES).run(step)
    assert error(run(program, packed, step, 2), want) < INTEGER


@pytest.mark.parametrize("format", ["q8_0", "q6_k", "q5_k", "q4_0", "mxfp4"])
def test_the_largest_numbers_do_not_overflow(format: str, level: str) -> None:
    """All bits set, or none: the extremes of int16 sums. One product, so nothing hides the error."""
    rows = []
    for fill in (0x00, 0x77 if format == "mxfp4" else 0x7F, 0x80, 0xFF):
        block = np.full(FORMATS[format].block_bytes, fill, dtype=np.uint8)
        at = 208 if format == "q6_k" else 0
        block[at : at + 2] = np.array([0.01], dtype=np.float16).view(np.uint8)
        if format == "mxfp4":
            block[0] = 121
        if format == "q5_k":
            block[2:4] = np.array([0.01], dtype=np.float16).view(np.uint8)
        rows.append(np.tile(block, 256 // FORMATS[format].block))
    packed = weights(build(), "f32")
    table = np.stack([rows[i % 4] for i in range(77)])
    packed["embed"] = Packed(FORMATS[format], torch.from_numpy(table))
    (step,) = steps_of([0, 1, 2, 3, 1])
    want = ReferenceExecutor(build(), packed, SIZES).run(step)
    assert error(run(build(), packed, step), want) < INTEGER
    one = torch.cat([run(build(), packed, s) for s in steps_of([1], [1])])
    assert error(one, ReferenceExecutor(build(), packed, SIZES).run(steps_of([1])[0])) < INTEGER


def test_sequences_and_scattered_blocks(level: str) -> None:
    program = build(2)
    packed = weights(program, "q4_k")
    rows = [*range(5), *range(17)]
    step = Step((TOKENS * 2)[:22], rows, [2] * 5 + [1] * 17, [[0], [5, 9], [3]], range(22))
    want = ReferenceExecutor(program, packed, SIZES).run(step)
    assert error(run(program, packed, step, 2), want) < INTEGER


def test_embedding_rows_are_exact(level: str) -> None:
    """With the blocks' other weights at zero the residual stream is the embedding itself."""
    for format in FORMATS:
        program = build()
        packed = weights(program, format)
        executor = CpuExecutor(program, packed, SIZES, 1)
        poison(executor)
        table = packed["embed"]
        for name in ("out", "down", "b_down"):
            zero = packed[name].data.zero_()
            assert not zero.any()
        executor.close()
        executor = CpuExecutor(program, packed, SIZES, 1)
        executor.run(steps_of(TOKENS)[0])
        x = torch.from_numpy(executor._memory[program.buffer("x").id][: len(TOKENS)])
        assert torch.equal(x, table.format.rows(table.data[TOKENS]))


def test_wrong_numbers_stay_wrong(level: str) -> None:
    """A NaN or an infinity in a vector reaches the logits: quantising does not launder it."""
    for value in (np.nan, np.inf):
        packed = weights(build(), "q4_k")
        packed["norm"].data.view(torch.float32)[0, 9] = value
        assert not run(build(), packed, steps_of(TOKENS)[0]).isfinite().any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tokens": [1, 77]}, "token 77"),
        ({"tokens": [1, -1]}, "token -1"),
        ({"positions": [0, 64]}, "position 64"),
        ({"sequences": [0, 1]}, "sequence 1"),
        ({"block_table": [[0, 16, 2, 3]]}, "block 16"),
        ({"out_rows": [2]}, "row 2"),
        ({"out_rows": []}, "0 rows want"),
        ({"tokens": []}, "a step of 0 rows"),
        ({"tokens": [1] * 65}, "65 rows"),
        ({"block_table": [[0] * 17]}, "17 blocks"),
    ],
)
def test_what_would_leave_a_buffer_is_refused(change: dict[str, list[int]], words: str) -> None:
    executor = CpuExecutor(build(), weights(build(), "q4_0"), SIZES, 1)
    good = {"tokens": [1, 2], "positions": [0, 1], "sequences": [0, 0], "block_table": [[0, 1, 2, 3]]}
    step = Step(**(good | {"out_rows": [0]} | change))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=words):
        executor.run(step)


def test_a_misshapen_weight_is_refused() -> None:
    packed = weights(build(), "f32")
    packed["down"] = packed["up"]
    with pytest.raises(ValueError, match="down is"):
        CpuExecutor(build(), packed, SIZES)
