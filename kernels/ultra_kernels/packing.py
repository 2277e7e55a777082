"""Layouts of safetensors checkpoints -> packed weights. Bytes move, none is computed: everything is lossless.

An MXFP4 weight is ``e2m1 * 2^(scale - 127)`` over groups of 32 along the input dimension, an FP8 one is
``e4m3 * scale`` over squares of 128 x 128. Checkpoints keep scales in tensors of their own; a packed row has
them beside what they scale, so that a row is one run of memory.

NumPy does it, on the thread that calls: loaders read many tensors at a time on threads of their own, and
PyTorch's would wait for each other at every tensor.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .formats import FORMATS
from .step import Packed

MXFP4, FP8 = FORMATS["mxfp4"], FORMATS["fp8_block"]

SQUARE = 128
"""Rows and columns that share a scale of an FP8 weight."""

_LOW, _NIBBLE = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(4)

_BLOCK = np.dtype([("scale", "u1"), ("values", "V16")])


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
    words = np.ascontiguousarray(weight.numpy()).view("<u8").reshape(rows, groups, 2)
    first, second = words[..., 0], words[..., 1]
    # Sixteen bytes with the columns of the first half in the low nibbles: even columns, then odd ones.
    values = np.empty((rows, groups, 8, 2), dtype=np.uint8)
    values[..., 0] = _bytes(first & _LOW | (second & _LOW) << _NIBBLE)
    values[..., 1] = _bytes(first >> _NIBBLE & _LOW | second & ~_LOW)
    blocks = np.empty((rows, groups), dtype=_BLOCK)
    blocks["scale"] = scale.numpy()
    blocks["values"] = values.reshape(rows, -1).view("V16")
    return Packed(MXFP4, torch.from_numpy(blocks.view(np.uint8)))


def _bytes(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """[...] -> [..., 8]."""
    return words[..., None].view(np.uint8)


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
    blocks = np.empty((rows, columns // SQUARE, FP8.block_bytes), dtype=np.uint8)
    blocks[..., :4] = scale_inv.contiguous().view(torch.uint8).numpy().reshape(rows, -1, 4)
    blocks[..., 4:] = weight.view(torch.uint8).numpy().reshape(rows, -1, SQUARE)
    return Packed(FP8, torch.from_numpy(blocks.reshape(rows, -1)))


def _require_e4m3(weight: Tensor, scale_inv: Tensor) -> None:
    if weight.dtype is not torch.float8_e4m3fn or weight.dim() != 2 or scale_inv.dtype is not torch.float32:
        raise ValueError(f"an FP8 weight is a float8_e4m3fn matrix with float32 scales, not {weight.dtype}")


def _require_bytes(*tensors: Tensor) -> None:
    for tensor in tensors:
        if tensor.dtype is not torch.uint8:
            raise ValueError(f"MXFP4 weights and scales are uint8, not {tensor.dtype}")


def _size(tensor: Tensor) -> list[int]:
    return list(tensor.shape)
