"""Weights are loaded one by one, in the order of the program, and end up as they would at once."""

from __future__ import annotations

import pytest
import torch
from kernels.counting_source import counted
from kernels.cpu import quantised_program
from ultra_kernels.cpu import arena
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.formats import FORMATS
from ultra_kernels.step import Packed, Sizes, Step

SIZES = Sizes(rows=8, blocks=2)
STEP = Step([3, 1, 4, 1, 5], range(5), [0] * 5, [[0]], [1, 4])


@pytest.mark.parametrize("format", ["q4_0", "mxfp4", "q6_k"])
def test_one_weight_at_a_time(format: str) -> None:
    program = quantised_program.build(4)
    weights = quantised_program.weights(program, format)
    late, counts = counted(weights)
    executor = CpuExecutor(program, late, SIZES, threads=2)
    assert counts.order == [buffer.name for buffer in program.weights()]
    assert counts.most == 1 and counts.alive[-1]() is None
    at_once = CpuExecutor(program, weights, SIZES, threads=2)
    assert torch.equal(executor.run(STEP), at_once.run(STEP))
    for some in (executor, at_once):
        some.close()


def test_those_that_stay_as_they_are_stay_alive() -> None:
    program = quantised_program.build(4)
    late, counts = counted(quantised_program.weights(program, "fp8_block"))
    executor = CpuExecutor(program, late, SIZES, threads=1)
    assert counts.most == sum(len(buffer.shape) > 1 for buffer in program.weights())
    executor.close()
    del executor
    assert all(ref() is None for ref in counts.alive)


def test_batches_are_of_weights_at_hand() -> None:
    """Those that have to be read stand alone; the order is kept."""
    program = quantised_program.build(1)
    weights = quantised_program.weights(program, "q4_0")
    late, _ = counted(weights)
    buffers = program.weights()
    mixed = {b.name: (late if b.name in ("wq", "gate", "norm") else weights)[b.name] for b in buffers}
    batches = [[b.name for b in batch] for batch in arena._batches(buffers, mixed)]
    assert [name for batch in batches for name in batch] == [buffer.name for buffer in buffers]
    assert [batch for batch in batches if set(batch) & {"wq", "gate", "norm"}] == [["wq"], ["gate"], ["norm"]]
    assert len(batches) == 6  # before wq, between it and gate, between gate and norm; norm is the last


def test_a_weight_of_another_shape_is_refused_before_any_is_read() -> None:
    program = quantised_program.build(1)
    late, counts = counted(quantised_program.weights(program, "q4_0"))
    wrong = Packed(FORMATS["f32"], torch.zeros(1, 4, dtype=torch.uint8))
    with pytest.raises(ValueError, match="norm is \\(1, 1\\), the program wants"):
        CpuExecutor(program, late | {"norm": wrong}, SIZES, threads=1)
    assert not counts.order
