"""Layouts of safetensors checkpoints -> packed weights. Bytes move, none is computed: everything is lossless.

An MXFP4 weight is ``e2m1 * 2^(scale - 127)`` over groups of 32 along the input dimension, an FP8 one is
``e4m3 * scale`` over squares of 128 x 128. Checkpoints keep scales in tensors of their own; a packed row has
them beside what they scale, so that a row is one run of memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .formats import FORMATS
from .step import Packed

MXFP4, FP8 = FORMATS["mxfp4"], FORMATS["fp8_block"]

SQUARE = 128
"""Rows and columns that share a scale of an FP8 weight."""

_HALVES = (slice(0, 8), slice(8, 16))


def mxfp4_from_pairs(weight: Tensor, scale: Tensor) -> Packed:
    """The MiMo layout: ``weight`` uint8 [rows, columns / 2], whose byte j has column 2j in its low half and
    2j + 1 in its high one; ``scale`` uint8 [rows, columns / 32].

    Raises `ValueError` for shapes that do not belong together.
    """
    _require_bytes(weight, scale)
    rows, groups = scale.shape if scale.dim() == 2 else (-1, 0)
    if weight.shape != (rows, groups * 16):
        raise ValueError(
            f"MXFP4 weight {_size(weight)} does not match its scale {_size(scale)}: 16 bytes a scale"
        )
    pairs = weight.reshape(rows, groups, 16)
    even, odd = pairs & 15, pairs >> 4
    # Sixteen bytes with the columns of the first half in the low nibbles: bytes 0..7 have them in pairs.
    first, second = (torch.stack((even[..., at], odd[..., at]), -1).flatten(-2) for at in _HALVES)
    blocks = torch.cat((scale[..., None], first | second << 4), dim=-1)
    return Packed(MXFP4, blocks.reshape(rows, groups * MXFP4.block_bytes))


def mxfp4_from_gpt_oss(blocks: Tensor, scales: Tensor) -> Packed:
    """The gpt-oss layout: uint8 ``_blocks`` [..., rows, groups, 16] and ``_scales`` [..., rows, groups].

    Leading dimensions (experts) become rows. `uninterleave` gate and up before.

    Raises `ValueError` for shapes that do not belong together.
    """
    _require_bytes(blocks, scales)
    if scales.dim() < 2 or blocks.shape != (*scales.shape, 16):
        raise ValueError(
            f"MXFP4 blocks {_size(blocks)} do not match their scales {_size(scales)}: 16 bytes a scale"
        )
    return mxfp4_from_pairs(blocks.flatten(0, -3).flatten(1), scales.flatten(0, -2))


def uninterleave(gate_up: Tensor) -> tuple[Tensor, Tensor]:
    """gpt-oss's gate and up rows, which alternate along dimension 1 of [experts, 2 * wide, ...]: blocks,
    scales and biases alike. Returns views (gate, up), [experts, wide, ...] each.

    Raises `ValueError` where the rows are odd in number.
    """
    if gate_up.dim() < 2 or gate_up.shape[1] % 2:
        raise ValueError(f"gate and up rows come in pairs: {_size(gate_up)} has none in its second dimension")
    return gate_up[:, 0::2], gate_up[:, 1::2]


def fp8_from_grid(weight: Tensor, scale_inv: Tensor) -> Packed:
    """An FP8 weight and its grid: ``weight`` float8_e4m3fn [rows, columns], ``scale_inv`` float32
    [ceil(rows / 128), columns / 128], which is what a code is multiplied with. A fused tensor whose grid
    begins anew at each chunk is packed chunk by chunk, or by `fp8_from_rows`.

    Raises `ValueError` for columns that 128 does not divide, and for a grid of another shape.
    """
    _require_e4m3(weight, scale_inv)
    rows, columns = weight.shape
    FP8.row_bytes(columns)
    grid = (-(-rows // SQUARE), columns // SQUARE)
    if scale_inv.shape != grid:
        raise ValueError(f"FP8 weight {_size(weight)} wants scales {list(grid)}, not {_size(scale_inv)}")
    return fp8_from_rows(weight, scale_inv.repeat_interleave(SQUARE, dim=0)[:rows])


def fp8_from_rows(weight: Tensor, scale_inv: Tensor) -> Packed:
    """As `fp8_from_grid`, but every row has scales of its own: float32 [rows, columns / 128].

    Raises `ValueError` for columns that 128 does not divide, and for scales of another shape.
    """
    _require_e4m3(weight, scale_inv)
    rows, columns = weight.shape
    FP8.row_bytes(columns)
    if scale_inv.shape != (rows, columns // SQUARE):
        wanted = [rows, columns // SQUARE]
        raise ValueError(f"FP8 weight {_size(weight)} wants scales {wanted}, not {_size(scale_inv)}")
    scales = scale_inv.contiguous().view(torch.uint8)
    codes = weight.contiguous().view(torch.uint8).reshape(rows, -1, SQUARE)
    blocks = torch.cat((scales.reshape(rows, -1, 4), codes), dim=-1)
    return Packed(FP8, blocks.reshape(rows, -1))


def _require_e4m3(weight: Tensor, scale_inv: Tensor) -> None:
    if weight.dtype is not torch.float8_e4m3fn or weight.dim() != 2 or scale_inv.dtype is not torch.float32:
        raise ValueError(f"an FP8 weight is a float8_e4m3fn matrix with float32 scales, not {weight.dtype}")


def _require_bytes(*tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype is not torch.uint8:
            raise ValueError(f"MXFP4 weights and scales are uint8, not {tensor.dtype}")


def _size(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
