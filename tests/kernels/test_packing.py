"""Packing loses nothing: what comes out of a block is what the checkpoint's own layout says, bit for bit."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from ultra_kernels.packing import fp8_from_grid, mxfp4_from_gpt_oss, mxfp4_from_pairs, uninterleave
from ultra_kernels.step import Packed

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def unpacked(packed: Packed) -> Tensor:
    return packed.format.rows(packed.data)


def same(got: Tensor, want: Tensor) -> None:
    """Equal numbers, NaN in the same places."""
    assert got.dtype == want.dtype == torch.float32
    assert got.shape == want.shape and torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(7.0, 8.0, 9.0), want.nan_to_num(7.0, 8.0, 9.0))


def every_byte_and_scale() -> tuple[Tensor, Tensor]:
    """[256 scales, 16 groups of 16 bytes]: every byte under every scale, E8M0's NaN included."""
    weight = torch.arange(256, dtype=torch.uint8).repeat(256, 1)
    return weight, torch.arange(256, dtype=torch.uint8)[:, None].repeat(1, 16)


def test_pairs_are_what_the_format_says_for_every_byte_and_scale() -> None:
    weight, scale = every_byte_and_scale()
    got = unpacked(mxfp4_from_pairs(weight, scale))
    want = np.empty((256, 512), dtype=np.float64)
    for byte in range(256):
        want[:, 2 * byte], want[:, 2 * byte + 1] = E2M1[byte & 15], E2M1[byte >> 4]
    want *= 2.0 ** (np.arange(256) - 127.0)[:, None]
    want[255] = np.nan
    with np.errstate(over="ignore"):  # 4 * 2^127 is infinite in float32
        same(got, torch.from_numpy(want.astype(np.float32)))
    assert got[0].abs().max() == 6 * 2.0**-127 and got[0, 2] == 2.0**-128


def test_gpt_oss_equals_transformers_for_every_byte_and_scale() -> None:
    """Their result is [experts, columns, rows]; it knows no NaN among the scales, so 255 is left out."""
    weight, scale = (part[:255] for part in every_byte_and_scale())
    blocks, scales = weight.reshape(5, 51, 16, 16), scale.reshape(5, 51, 16)
    want = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2)
    got = unpacked(mxfp4_from_gpt_oss(blocks, scales)).reshape(5, 51, 512)
    same(got, want.contiguous())


@given(rows=st.integers(1, 5), groups=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_both_layouts_are_one(rows: int, groups: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = torch.from_numpy(rng.integers(0, 256, (rows, groups * 16), dtype=np.uint8))
    scale = torch.from_numpy(rng.integers(0, 256, (rows, groups), dtype=np.uint8))
    pairs = mxfp4_from_pairs(weight, scale)
    assert pairs.shape == (rows, groups * 32) and pairs.data.is_contiguous()
    assert torch.equal(mxfp4_from_gpt_oss(weight.reshape(rows, groups, 16), scale).data, pairs.data)
    # Nothing is lost: the bytes come back.
    blocks = pairs.data.reshape(rows, groups, 17)
    assert torch.equal(blocks[..., 0], scale)
    codes = torch.cat((blocks[..., 1:] & 15, blocks[..., 1:] >> 4), dim=-1).reshape(rows, -1)
    assert torch.equal(codes[:, 0::2] | codes[:, 1::2] << 4, weight)


def test_gate_and_up_rows_alternate() -> None:
    bias = torch.arange(12.0).reshape(2, 6)
    gate, up = uninterleave(bias)
    assert gate.tolist() == [[0, 2, 4], [6, 8, 10]] and up.tolist() == [[1, 3, 5], [7, 9, 11]]
    blocks = torch.randint(0, 256, (2, 6, 3, 16), dtype=torch.uint8)
    scales = torch.randint(0, 255, (2, 6, 3), dtype=torch.uint8)
    whole = unpacked(mxfp4_from_gpt_oss(blocks, scales)).reshape(2, 6, 96)
    for part, (b, s) in enumerate(zip(uninterleave(blocks), uninterleave(scales), strict=True)):
        same(unpacked(mxfp4_from_gpt_oss(b, s)).reshape(2, 3, 96), whole[:, part::2].contiguous())


@given(rows=st.integers(1, 300), across=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_a_grid_of_scales_is_what_it_says(rows: int, across: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = torch.from_numpy(rng.integers(0, 256, (rows, across * 128), dtype=np.uint8))
    weight = codes.view(torch.float8_e4m3fn)
    grid = torch.from_numpy(rng.normal(0, 1e-3, (-(-rows // 128), across)).astype(np.float32))
    packed = fp8_from_grid(weight, grid)
    assert packed.shape == (rows, across * 128)
    row, column = torch.arange(rows)[:, None], torch.arange(across * 128)
    same(unpacked(packed), weight.float() * grid[row // 128, column // 128])


@pytest.mark.parametrize("scale", [1.0, 0.3, 1e-42, -2.0, 3e38, float("nan")])
def test_every_code_of_e4m3(scale: float) -> None:
    """Against the format's definition (OCP 8-bit floating point, 5.1): no infinities, two codes are NaN."""
    weight = torch.arange(256, dtype=torch.uint8).reshape(1, 256).view(torch.float8_e4m3fn)
    values = []
    for code in range(256):
        exponent, fraction = code >> 3 & 15, code & 7
        size = fraction * 2.0**-9 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
        values.append(float("nan") if code & 127 == 127 else -size if code >> 7 else size)
    want = torch.tensor([values], dtype=torch.float32) * torch.tensor(scale, dtype=torch.float32)
    same(unpacked(fp8_from_grid(weight, torch.full((1, 2), scale))), want)


def test_what_does_not_fit_is_refused() -> None:
    byte = lambda *shape: torch.zeros(shape, dtype=torch.uint8)  # noqa: E731
    e4m3 = lambda *shape: byte(*shape).view(torch.float8_e4m3fn)  # noqa: E731
    with pytest.raises(ValueError, match="does not match its scale"):
        mxfp4_from_pairs(byte(2, 32), byte(2, 3))
    with pytest.raises(ValueError, match="do not match their scales"):
        mxfp4_from_gpt_oss(byte(2, 3, 16), byte(2, 2))
    with pytest.raises(ValueError, match="uint8, not torch.float32"):
        mxfp4_from_pairs(byte(2, 32), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="come in pairs"):
        uninterleave(byte(2, 3))
    with pytest.raises(ValueError, match="blocks of 128, which does not divide 200 columns"):
        fp8_from_grid(e4m3(3, 200), torch.ones(1, 2))
    with pytest.raises(ValueError, match=r"wants scales \[2, 1\], not \[1, 1\]"):
        fp8_from_grid(e4m3(129, 128), torch.ones(1, 1))
    with pytest.raises(ValueError, match="float8_e4m3fn matrix"):
        fp8_from_grid(byte(128, 128), torch.ones(1, 1))
