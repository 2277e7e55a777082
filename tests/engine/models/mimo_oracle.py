"""MiMo-V2 in plain float64, from its description: nothing here is the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """``sliding``: which layers slide. KV heads are (of full layers, of sliding ones), so are thetas."""

    sliding: tuple[bool, ...] = (False, True, True, False)
    hidden: int = 256
    heads: int = 8
    kv_heads: tuple[int, int] = (4, 4)
    key: int = 48
    value: int = 32
    rotated: int = 16
    thetas: tuple[float, float] = (1e6, 1e4)
    value_scale: float = 0.612
    wide: int = 256
    experts: int = 8
    top_k: int = 3
    narrow: int = 128
    vocab: int = 90
    window: int = 16
    eps: float = 1e-5

    def kv(self, layer: int) -> int:
        return self.kv_heads[self.sliding[layer]]


def logits(weights: Mapping[str, Tensor], shape: Shape, ids: Sequence[int], window: int) -> Tensor:
    """float64 [len(ids), vocabulary]. ``weights`` are float64, by layer: "3.q", "3.experts" and so on."""
    x = weights["embed"][list(ids)]
    for layer in range(len(shape.sliding)):
        own = {n.removeprefix(f"{layer}."): w for n, w in weights.items() if n.startswith(f"{layer}.")}
        x = x + _attention(own, shape, layer, _norm(x, own["attn_norm"], shape.eps), window)
        h = _norm(x, own["mlp_norm"], shape.eps)
        x = x + (torch.stack([_experts(own, shape, row) for row in h]) if layer else _swiglu(own, h))
    return _norm(x, weights["norm"], shape.eps) @ weights["head"].T


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight


def _attention(w: Mapping[str, Tensor], s: Shape, layer: int, h: Tensor, window: int) -> Tensor:
    rows, slides, kv = len(h), s.sliding[layer], s.kv(layer)
    q = _rotated((h @ w["q"].T).reshape(rows, s.heads, s.key), s, s.thetas[slides])
    k = _rotated((h @ w["k"].T).reshape(rows, kv, s.key), s, s.thetas[slides])
    v = (h @ w["v"].T).reshape(rows, kv, s.value) * s.value_scale
    mixed = torch.empty(rows, s.heads, s.value, dtype=torch.float64)
    for row in range(rows):
        first = max(0, row - window + 1) if slides else 0
        for head in range(s.heads):
            group = head // (s.heads // kv)
            scores = k[first : row + 1, group] @ q[row, head] / s.key**0.5
            powers = scores.exp()
            total = powers.sum() + (w["sinks"][head].exp() if slides else 0)
            mixed[row, head] = powers / total @ v[first : row + 1, group]
    return mixed.reshape(rows, -1) @ w["o"].T


def _rotated(x: Tensor, s: Shape, theta: float) -> Tensor:
    """Halves of the first ``rotated`` numbers of a head; the others pass."""
    half = s.rotated // 2
    frequency = theta ** -(torch.arange(half, dtype=torch.float64) * 2 / s.rotated)
    angle = torch.arange(len(x), dtype=torch.float64)[:, None, None] * frequency
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    turned = (a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(), rest)
    return torch.cat(turned, dim=-1)


def _swiglu(w: Mapping[str, Tensor], h: Tensor) -> Tensor:
    gate, up = h @ w["gate"].T, h @ w["up"].T
    return gate * torch.sigmoid(gate) * up @ w["down"].T


def _experts(w: Mapping[str, Tensor], s: Shape, h: Tensor) -> Tensor:
    scores = torch.sigmoid(w["router"] @ h)
    chosen = sorted(range(s.experts), key=lambda e: -float(scores[e] + w["correction"][e]))[: s.top_k]
    total = sum(float(scores[e]) for e in chosen) + 1e-20
    return sum(
        (float(scores[e]) / total * _swiglu({n: w[n][e] for n in ("gate", "up", "down")}, h) for e in chosen),
        torch.zeros_like(h),
    )
