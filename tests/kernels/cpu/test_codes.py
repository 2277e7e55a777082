"""Every code of the formats that fit into one table: unpacked exactly, and NaN where the format says NaN."""

import numpy as np
import pytest
import torch
from ultra_kernels.builder import Builder
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.formats import FORMATS
from ultra_kernels.packing import fp8_from_grid, mxfp4_from_pairs
from ultra_kernels.program import Attributes, Kind, Op, Program
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Packed, Sizes, Step

SIZES = Sizes(rows=256, blocks=16)


def _program(vocabulary: int, columns: int) -> Program:
    """logits = head rmsnorm(embedding), and nothing else."""
    b = Builder()
    x, tokens = b.activation("x", "rows", columns), b.input("tokens", "rows")
    for name in ("positions", "sequences"):
        b.input(name, "rows")
    b.input("block_table", "sequences", "table")
    table, head = b.weight("embed", vocabulary, columns), b.weight("head", vocabulary, columns)
    b.node(Op.EMBED, columns, {"table": table, "tokens": tokens, "x": x}, Attributes())
    out = {"x": x, "norm": b.weight("norm", columns), "w": head, "out_rows": b.input("out_rows", "outputs")}
    out["logits"] = b.buffer("logits", Kind.OUTPUT, "outputs", vocabulary)
    b.node(Op.NORM_HEAD, vocabulary, out, Attributes(eps=1e-5))
    return b.build(3)


def _step(count: int) -> Step:
    return Step(range(count), range(count), [0] * count, [range(16)], range(count))


def _everything(format: str) -> Packed:
    """MXFP4: a row for every scale, with every byte. FP8: rows of every code under scales of all sizes."""
    codes = torch.arange(256, dtype=torch.uint8)
    if format == "mxfp4":
        return mxfp4_from_pairs(codes.repeat(256, 1), codes[:, None].repeat(1, 16))
    grid = torch.tensor([[1e-42, 2.0], [0.3, -1e-30], [3e38, torch.inf], [torch.nan, 1.0]])
    scales = [fp8_from_grid(codes[None].view(torch.float8_e4m3fn), grid[i : i + 1]).data for i in range(4)]
    return Packed(FORMATS[format], torch.cat(scales))


def _plain(rows: int, columns: int) -> Packed:
    values = np.random.default_rng(3).normal(0, 1, (rows, columns)).astype(np.float32)
    return Packed(FORMATS["f32"], torch.from_numpy(values).view(torch.uint8))


@pytest.mark.parametrize("format", ["mxfp4", "fp8_block"])
def test_an_embedding_of_every_code_is_exact(format: str, level: str) -> None:
    table = _everything(format)
    rows, columns = table.shape
    program = _program(rows, columns)
    packed = {"embed": table, "norm": _plain(1, columns), "head": _plain(rows, columns)}
    executor = CpuExecutor(program, packed, SIZES, 2)
    executor.run(_step(rows))
    x = executor._memory[program.buffer("x").id][:rows]
    want = table.format.rows(table.data).numpy()
    np.testing.assert_array_equal(np.isnan(x), np.isnan(want))
    np.testing.assert_array_equal(x[~np.isnan(x)], want[~np.isnan(want)])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_scale_that_is_not_a_number_reaches_its_product(count: int, level: str) -> None:
    """And no other; those far from overflow, subnormal weights included, agree with the reference."""
    head = _everything("mxfp4")
    packed = {"embed": _plain(256, 512), "norm": _plain(1, 512), "head": head}
    got = CpuExecutor(_program(256, 512), packed, SIZES, 2).run(_step(count))
    want = ReferenceExecutor(_program(256, 512), packed, SIZES).run(_step(count))
    assert got[:, 255].isnan().all() and not got[:, :230].isnan().any()
    for scale in (*range(30), *range(100, 180)):
        assert (got[:, scale] - want[:, scale]).norm() < 0.025 * want[:, scale].norm() + 1e-44, scale


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_code_that_is_not_a_number_reaches_its_product(count: int, level: str) -> None:
    codes = torch.arange(256, dtype=torch.uint8).repeat(3, 1)
    codes[1:][(codes[1:] & 127) == 127] = 0
    codes[2, 130] = 0xFF
    head = fp8_from_grid(codes.view(torch.float8_e4m3fn), torch.tensor([[0.01, 1e-39]]))
    packed = {"embed": _plain(3, 256), "norm": _plain(1, 256), "head": head}
    step = Step([1] * count, range(count), [0] * count, [range(16)], range(count))
    got = CpuExecutor(_program(3, 256), packed, SIZES, 2).run(step)
    want = ReferenceExecutor(_program(3, 256), packed, SIZES).run(step)
    assert got[:, [0, 2]].isnan().all()
    torch.testing.assert_close(got[:, 1], want[:, 1], rtol=1e-5, atol=1e-6)
