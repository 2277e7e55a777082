"""The arithmetic of attention, in PyTorch: RoPE, the paged cache, and what a row makes of its keys."""

from __future__ import annotations

import torch
from torch import Tensor

from .program import BLOCK, Attributes


def rope(x: Tensor, angles: Tensor, at: Attributes) -> Tensor:
    """x [rows, heads, dim], angles [rows, rope_dims / 2]; dims past ``rope_dims`` pass through."""
    turned, rest = x[..., : at.rope_dims], x[..., at.rope_dims :]
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if at.interleaved else turned.chunk(2, dim=-1)
    pair = (a * cos - b * sin, b * cos + a * sin)
    both = torch.stack(pair, dim=-1).flatten(-2) if at.interleaved else torch.cat(pair, dim=-1)
    return torch.cat((both, rest), dim=-1)


def cache_slots(table: Tensor, sequences: Tensor, positions: Tensor) -> Tensor:
    """Flat slot of every row in a cache of [blocks * BLOCK, kv_heads, dim]."""
    return table[sequences, positions // BLOCK] * BLOCK + positions % BLOCK


def gather(cache: Tensor, blocks: Tensor, keys: int) -> Tensor:
    """The first ``keys`` positions of a sequence: float32 [keys, kv_heads, dim]."""
    blocks = blocks[: -(-keys // BLOCK)]
    first = int(blocks[0])
    in_order = bool((blocks == torch.arange(first, first + len(blocks))).all())
    pages = cache[first : first + len(blocks)] if in_order else cache[blocks]  # a view where it can be
    return pages.flatten(0, 1)[:keys].float()


def attend(
    q: Tensor, k: Tensor, v: Tensor, positions: Tensor, at: Attributes, sinks: Tensor | None
) -> Tensor:
    """q [rows, heads, dim], k and v [keys, kv_heads, dim], sinks [heads] -> [rows, heads * v's dim]; key j is
    at position j."""
    rows, heads, dim = q.shape
    kv_heads = k.shape[1]
    grouped = q.reshape(rows, kv_heads, -1, dim).permute(1, 2, 0, 3)  # [kv, group, rows, dim]
    scores = grouped @ k.permute(1, 2, 0)[:, None] * at.scale  # [kv, group, rows, keys]
    distance: Tensor = positions[:, None] - torch.arange(k.shape[0])  # [rows, keys]
    hidden = distance < 0 if not at.window else (distance < 0) | (distance >= at.window)
    scores = scores.masked_fill(hidden, -torch.inf)
    if sinks is None:
        weights = scores.softmax(-1)
    else:
        sink = sinks.reshape(kv_heads, -1, 1, 1).expand(-1, -1, rows, 1)
        weights = torch.cat((scores, sink), dim=-1).softmax(-1)[..., :-1]
    mixed = weights @ v.permute(1, 0, 2)[:, None]  # [kv, group, rows, v's dim]
    return mixed.permute(2, 0, 1, 3).reshape(rows, -1)
