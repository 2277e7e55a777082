"""Weight formats as data: name, block length, bytes a block, and how to unpack to float32.

A packed tensor is uint8 of shape [rows, row_bytes]; a row is a whole number of blocks along the input
dimension. Layouts are those of GGUF (ggml's ``block_*`` structs), little endian. Unpacking follows the order
of operations of ggml's own dequantisers, so that results are equal bit for bit. One format is not GGUF's:
``fp8_block``, a float32 scale and 128 e4m3 codes. `packing` makes blocks of what safetensors files have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Unpack = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Format:
    """One weight format. ``unpack`` maps uint8 [blocks, block_bytes] to float32 [blocks, block]."""

    name: str
    block: int
    block_bytes: int
    unpack: Unpack

    def row_bytes(self, columns: int) -> int:
        """Bytes of one row of ``columns`` weights; `ValueError` if blocks do not divide it."""
        if columns % self.block:
            raise ValueError(
                f"{self.name} packs blocks of {self.block}, which does not divide {columns} columns"
            )
        return columns // self.block * self.block_bytes

    def rows(self, packed: Tensor) -> Tensor:
        """uint8 [rows, row_bytes] -> float32 [rows, columns]."""
        rows, row_bytes = packed.shape
        blocks = packed.reshape(rows * row_bytes // self.block_bytes, self.block_bytes)
        return self.unpack(blocks).reshape(rows, row_bytes // self.block_bytes * self.block)


def _half(blocks: Tensor, start: int) -> Tensor:
    """The float16 at byte ``start`` of every block, as float32 [blocks, 1]."""
    return blocks[:, start : start + 2].contiguous().view(torch.float16).float()


def _nibbles(packed: Tensor) -> Tensor:
    """uint8 [..., n] -> uint8 [..., 2n]: all low nibbles, then all high ones."""
    return torch.cat((packed & 15, packed >> 4), dim=-1)


def _bits(blocks: Tensor, start: int) -> Tensor:
    """The 32 bits from byte ``start`` as uint8 [blocks, 32], least significant first."""
    field = blocks[:, start : start + 4]
    return (field[:, :, None] >> torch.arange(8, dtype=torch.uint8) & 1).reshape(-1, 32)


def _f32(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float32)


def _f16(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float16).float()


def _bf16(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.bfloat16).float()


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].contiguous().view(torch.int8).float() * _half(blocks, 0)


def _q4_0(blocks: Tensor) -> Tensor:
    return (_nibbles(blocks[:, 2:]).float() - 8) * _half(blocks, 0)


def _q4_1(blocks: Tensor) -> Tensor:
    return _nibbles(blocks[:, 4:]).float() * _half(blocks, 0) + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    q = _nibbles(blocks[:, 6:]) | _bits(blocks, 2) << 4
    return (q.float() - 16) * _half(blocks, 0)


def _q5_1(blocks: Tensor) -> Tensor:
    q = _nibbles(blocks[:, 8:]) | _bits(blocks, 4) << 4
    return q.float() * _half(blocks, 0) + _half(blocks, 2)


def _k_scales(scales: Tensor) -> tuple[Tensor, Tensor]:
    """The 6-bit scales and minima of a q4_k or q5_k block: uint8 [blocks, 12] -> two of uint8 [blocks, 8]."""
    low, middle, high = scales[:, :4], scales[:, 4:8], scales[:, 8:]
    scale = torch.cat((low & 63, high & 15 | low >> 6 << 4), dim=1)
    minimum = torch.cat((middle & 63, high >> 4 | middle >> 6 << 4), dim=1)
    return scale, minimum


def _k_affine(blocks: Tensor, q: Tensor) -> Tensor:
    """d * scale * q - dmin * min over 8 groups of 32; q is uint8 [blocks, 8, 32]."""
    scale, minimum = _k_scales(blocks[:, 4:16])
    d = (_half(blocks, 0) * scale.float())[:, :, None]
    m = (_half(blocks, 2) * minimum.float())[:, :, None]
    return (d * q.float() - m).reshape(-1, 256)


def _q4_k(blocks: Tensor) -> Tensor:
    return _k_affine(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(blocks: Tensor) -> Tensor:
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    high = blocks[:, 16:48][:, None, :] >> torch.arange(8, dtype=torch.uint8)[None, :, None] & 1
    return _k_affine(blocks, low | high << 4)


def _q6_k(blocks: Tensor) -> Tensor:
    """Two halves of 128: 64 bytes of low nibbles and 32 of high bit pairs each; 16 int8 scales."""
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8)[None, None, :, None]
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3
    q = (low | high << 4).view(torch.int8) - 32
    scale = _half(blocks, 208) * blocks[:, 192:208].contiguous().view(torch.int8).float()
    return (scale[:, :, None] * q.reshape(-1, 16, 16).float()).reshape(-1, 256)


_E2M1_DOUBLED = torch.tensor([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=torch.float32)


def _e8m0_half(codes: Tensor) -> Tensor:
    """Half of 2^(code - 127), exact down to the subnormals; 255 is NaN (OCP Microscaling Formats 1.0, 5.4.1).
    Half, because the table of values is doubled; ggml reads 255 as a number."""
    code = codes.int()
    bits = torch.where(code < 2, 0x00200000 << code.clamp(max=1), (code - 1) << 23)
    return torch.where(code == 255, 0x7FC00000, bits).view(torch.float32)


def _mxfp4(blocks: Tensor) -> Tensor:
    return _E2M1_DOUBLED[_nibbles(blocks[:, 1:]).int()] * _e8m0_half(blocks[:, :1])


def _fp8_block(blocks: Tensor) -> Tensor:
    return blocks[:, 4:].contiguous().view(torch.float8_e4m3fn).float() * _f32(blocks[:, :4])


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("f32", 1, 4, _f32),
        Format("f16", 1, 2, _f16),
        Format("bf16", 1, 2, _bf16),
        Format("q8_0", 32, 34, _q8_0),
        Format("q4_0", 32, 18, _q4_0),
        Format("q4_1", 32, 20, _q4_1),
        Format("q5_0", 32, 22, _q5_0),
        Format("q5_1", 32, 24, _q5_1),
        Format("q4_k", 256, 144, _q4_k),
        Format("q5_k", 256, 176, _q5_k),
        Format("q6_k", 256, 210, _q6_k),
        Format("mxfp4", 32, 17, _mxfp4),
        Format("fp8_block", 128, 132, _fp8_block),
    )
}
