"""Mixtures on the CPU machine: against the reference, batch invariant to the bit, and safe from bad ids."""

import numpy as np
import pytest
import torch
from kernels.moe_program import FAMILIES, Family, Shape, build, step, weights
from torch import Tensor
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.program import Kind, Program
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Packed, Sizes

SIZES = Sizes(rows=40, blocks=8)
TOKENS = [
    3,
    7,
    7,
    49,
    0,
    12,
    31,
    5,
    18,
    22,
    9,
    41,
    2,
    2,
    30,
    17,
    8,
    44,
    1,
    26,
    60,
    59,
    4,
    33,
    6,
    11,
    19,
    50,
    51,
    3,
    20,
    9,
    1,
]
LARGE = Shape(6, 2, 256, 256)

FLOAT, INTEGER = 1e-5, 3e-2
"""Relative error of the logits; there is no attention, and so no float16."""


def executor(program: Program, packed: dict[str, Packed], threads: int = 1) -> CpuExecutor:
    """With NaN, and ids far out of range, wherever nobody has written."""
    made = CpuExecutor(program, packed, SIZES, threads)
    for buffer in program.buffers:
        if buffer.kind is Kind.ACTIVATION:
            made._memory[buffer.id].fill(np.nan)
        elif buffer.kind is Kind.INDEX:
            made._memory[buffer.id].fill(0x7FFFFFFF)
    return made


def error(got: Tensor, want: Tensor) -> float:
    return float((got - want).norm() / want.norm())


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [Shape(), Shape(5, 5, 8, 40), Shape(9, 1, 24, 7), Shape(33, 8, 16, 19)])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_agrees(name: str, shape: Shape, threads: int, level: str) -> None:
    """Odd sizes, more tiles than threads, 1 to 9 rows and a chunk; two layers, so that choices differ."""
    family = FAMILIES[name]
    whole, cut = build(family, shape, layers=2), build(family, shape, 5, layers=2)
    packed = weights(whole, seed=1)
    reference, machine = ReferenceExecutor(whole, packed, SIZES), executor(cut, packed, threads)
    for rows in (*range(1, 10), 33):
        want = reference.run(step(TOKENS[:rows]))
        assert want.isfinite().all()
        assert error(machine.run(step(TOKENS[:rows])), want) < FLOAT, rows


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "format", ["f32", "f16", "bf16", "q8_0", "q4_0", "q5_1", "q4_k", "q6_k", "mxfp4", "fp8_block"]
)
def test_experts_in_any_format_agree(format: str, threads: int, level: str) -> None:
    family = FAMILIES["gpt_oss"]
    packed = weights(build(family, LARGE), format)
    reference = ReferenceExecutor(build(family, LARGE), packed, SIZES)
    machine = executor(build(family, LARGE, 7), packed, threads)
    for rows in (1, 2, 5, 33):
        got, want = machine.run(step(TOKENS[:rows])), reference.run(step(TOKENS[:rows]))
        assert error(got, want) < (FLOAT if format in ("f32", "f16", "bf16", "fp8_block") else INTEGER), rows


@pytest.mark.parametrize("format", ["q8_0", "q5_0", "mxfp4"])
def test_blocks_of_32_in_odd_numbers(format: str, level: str) -> None:
    """Up to a step as large as the executor allows: the room of a thread holds just that."""
    shape = Shape(7, 6, 96, 160)
    packed = weights(build(FAMILIES["mimo"], shape), format)
    machine = executor(build(FAMILIES["mimo"], shape, 3), packed, 2)
    tokens = [*TOKENS, *range(SIZES.rows - len(TOKENS))]
    for rows in (1, 2, 7, SIZES.rows):
        want = ReferenceExecutor(build(FAMILIES["mimo"], shape), packed, SIZES).run(step(tokens[:rows]))
        assert error(machine.run(step(tokens[:rows])), want) < INTEGER, rows


def test_formats_may_be_mixed(level: str) -> None:
    """Gate in blocks of 32, up in blocks of 256, down in floats."""
    family = FAMILIES["mimo"]
    packed = weights(build(family, LARGE), "mxfp4")
    packed["0.up"] = weights(build(family, LARGE), "q4_k")["0.up"]
    packed["0.down"] = weights(build(family, LARGE), "bf16")["0.down"]
    machine = executor(build(family, LARGE, 3), packed, 2)
    for rows in (1, 6):
        want = ReferenceExecutor(build(family, LARGE), packed, SIZES).run(step(TOKENS[:rows]))
        assert error(machine.run(step(TOKENS[:rows])), want) < INTEGER


@pytest.mark.parametrize("format", ["f32", "mxfp4", "q4_k", "fp8_block"])
@pytest.mark.parametrize("name", ["mimo", "gpt_oss"])
def test_company_changes_no_bit(name: str, format: str, level: str) -> None:
    """A row alone, in blocks of 8, in a chunk of 33, cut in any way, on any threads."""
    family = FAMILIES[name]
    packed = weights(build(family, LARGE, layers=2), format)
    want = executor(build(family, LARGE, layers=2), packed).run(step(TOKENS))
    assert want.isfinite().all()
    machine = executor(build(family, LARGE, 9, layers=2), packed, 3)
    for size in (1, 8, 33):
        parts = [machine.run(step(TOKENS[at : at + size])) for at in range(0, 33, size)]
        assert torch.equal(torch.cat(parts), want), size


def test_everybody_may_choose_one_expert(level: str) -> None:
    family = Family(FAMILIES["mimo"].scoring, correction=True)
    packed = weights(build(family))
    packed["0.correction"].data.view(torch.float32)[0] = torch.tensor([0.0, 0, 9, 0, 0, 8, 0, 7])
    machine = executor(build(family, tiles=3), packed, 2)
    got = machine.run(step(TOKENS))
    ids = machine._memory[machine.program.buffer("ids").id][:33]
    assert (ids == [2, 5, 7]).all()
    assert error(got, ReferenceExecutor(build(family), packed, SIZES).run(step(TOKENS))) < FLOAT


@pytest.mark.parametrize("name", FAMILIES)
def test_ties_go_to_the_lower_id(name: str, level: str) -> None:
    """A router of equal rows likes all alike."""
    program = build(FAMILIES[name])
    packed = weights(program)
    for part in ("router", "router.b", "correction"):
        if f"0.{part}" in packed:
            packed[f"0.{part}"].data.zero_()
    machine = executor(program, packed)
    machine.run(step(TOKENS))
    assert (machine._memory[program.buffer("ids").id][:33] == [0, 1, 2]).all()


@pytest.mark.parametrize("part", ["router", "norm", "correction"])
def test_a_router_that_is_not_a_number_is_seen_in_the_logits(part: str, level: str) -> None:
    program = build(FAMILIES["mimo"], tiles=2)
    for value in (np.nan, np.inf) if part == "norm" else (np.nan,):
        packed = weights(program)
        packed[f"0.{part}"].data.view(torch.float32)[-1, -1] = value
        machine = executor(program, packed, 2)
        assert machine.run(step(TOKENS)).isnan().all()
        ids = machine._memory[program.buffer("ids").id][:33]
        assert ((ids >= 0) & (ids < 8)).all()


def test_one_bad_row_leaves_the_others_alone(level: str) -> None:
    program = build(FAMILIES["gpt_oss"])
    packed = weights(program)
    want = executor(program, packed).run(step(TOKENS))
    packed["embed"].data.view(torch.float32)[49, 3] = np.nan
    got = executor(program, packed).run(step(TOKENS))
    assert got[3].isnan().all()
    others = [row for row in range(33) if row != 3]
    assert torch.equal(got[others], want[others])


@pytest.mark.parametrize("format", ["f32", "mxfp4"])
@pytest.mark.parametrize("bad", [8, -1, 2**31 - 1, -(2**31)])
def test_ids_out_of_range_are_never_addresses(bad: int, format: str, level: str) -> None:
    """Nobody routes here: the ids are what the test leaves there. Rows with good ids are computed."""
    shape = Shape(hidden=32, wide=64)
    program = build(FAMILIES["gpt_oss"], shape, 3, routed=False)
    packed = weights(build(FAMILIES["gpt_oss"], shape), format)
    machine = executor(program, packed, 2)
    ids, gates = (machine._memory[program.buffer(name).id] for name in ("ids", "gates"))
    ids[:], gates[:] = [1, 0, 7], 0.3
    want = machine.run(step(TOKENS[:5]))
    assert want.isfinite().all()
    ids[2, 1] = bad
    got = machine.run(step(TOKENS[:5]))
    assert got[2].isnan().all()
    assert torch.equal(got[[0, 1, 3, 4]], want[[0, 1, 3, 4]])


def test_an_expert_chosen_twice_by_everybody_is_no_more_than_slow(level: str) -> None:
    """No router does that; the room of a thread must hold anyway, and the sum is right."""
    program = build(FAMILIES["gpt_oss"], tiles=2, routed=False)
    packed = weights(build(FAMILIES["gpt_oss"]))
    machine, rows = executor(program, packed, 2), SIZES.rows
    ids, gates = (machine._memory[program.buffer(name).id] for name in ("ids", "gates"))
    tokens = [*TOKENS, *range(rows - 33)]
    ids[:], gates[:] = 4, [0.25, 0.5, 0.25]
    thrice = machine.run(step(tokens))
    ids[:], gates[:] = [4, 0, 1], [1.0, 0.0, 0.0]
    assert error(thrice, machine.run(step(tokens))) < FLOAT
