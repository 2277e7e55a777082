"""What a DFlash drafter computes, in plain PyTorch: the definition that faster ones are held to.

A drafter has K and V of the target's states at every position before the block, made once and kept
(`inject`), and K and V of the block itself, which are dropped after it is drafted. All in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from ..models.config import Attention, Layer
from ..models.dflash import DrafterConfig


@dataclass(slots=True)
class Context:
    """K [positions, kv_heads, head_dim], rotated, and V [positions, kv_heads, value_dim] of every layer."""

    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Positions of it; the anchor of the next block is at this one."""
        return len(self.keys[0]) if self.keys else 0

    def crop(self, length: int) -> None:
        """Forget the positions from ``length`` on."""
        self.keys = [keys[:length] for keys in self.keys]
        self.values = [values[:length] for values in self.values]


@dataclass(frozen=True, slots=True)
class Borrowed:
    """What a drafter takes from its target, float32. ``embedding`` and ``head`` are [vocabulary, hidden].

    mask: stands in for the mask token's row of ``embedding``.
    tokens: those that may be drafted, int64 ascending; None is all.
    """

    embedding: Tensor
    head: Tensor
    mask: Tensor | None = None
    tokens: Tensor | None = None


def inject(config: DrafterConfig, weights: Mapping[str, Tensor], context: Context, taps: Tensor) -> None:
    """Append the target's states at the next positions to ``context``.

    taps: float32 [positions, taps * target_hidden], each position's outputs of the layers of ``config.taps``.
    ``weights`` are float32, by the names of `DrafterConfig.weights`.
    """
    states = _norm(taps @ weights["fc.weight"].T, weights["hidden_norm.weight"], config.eps)
    positions = torch.arange(context.length, context.length + len(states))
    for index, layer in enumerate(config.layers):
        keys, values = _keys_values(config, _own(weights, index), layer.attention, states, positions)
        if index == len(context.keys):
            context.keys.append(keys)
            context.values.append(values)
        else:
            context.keys[index] = torch.cat((context.keys[index], keys))
            context.values[index] = torch.cat((context.values[index], values))


def draft_logits(
    config: DrafterConfig,
    weights: Mapping[str, Tensor],
    borrowed: Borrowed,
    context: Context,
    anchor: int,
    block: int | None = None,
) -> Tensor:
    """Logits of the tokens that follow ``anchor``, which stands at position ``context.length``.

    Float32 [block - 1, vocabulary], or [.., len(tokens)] where a drafter has few: row r is of the token r + 1
    places after the anchor. ``block`` shortens the config's. ``context`` stays as it is.
    """
    block = block or config.block
    assert 2 <= block <= config.block
    x = _embed(config, borrowed, anchor, block)
    positions = torch.arange(context.length, context.length + block)
    for index, layer in enumerate(config.layers):
        x = _layer(config, _own(weights, index), layer, config.causal[index], context, index, x, positions)
    head = borrowed.head if borrowed.tokens is None else borrowed.head[borrowed.tokens]
    logits = _norm(x[1:], weights["norm.weight"], config.eps) @ head.T * config.logit_scale
    return torch.tanh(logits / config.softcap) * config.softcap if config.softcap else logits


def _embed(config: DrafterConfig, borrowed: Borrowed, anchor: int, block: int) -> Tensor:
    """The anchor and masks: [block, hidden]."""
    mask = borrowed.embedding[config.mask_token] if borrowed.mask is None else borrowed.mask
    rows = torch.stack([borrowed.embedding[anchor], *[mask] * (block - 1)])
    return rows * config.embedding_scale


def _own(weights: Mapping[str, Tensor], layer: int) -> Mapping[str, Tensor]:
    prefix = f"layers.{layer}."
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}


def _layer(
    config: DrafterConfig,
    w: Mapping[str, Tensor],
    layer: Layer,
    causal: bool,
    context: Context,
    index: int,
    x: Tensor,
    positions: Tensor,
) -> Tensor:
    a = layer.attention
    h = _norm(x, w["attn_norm.weight"], config.eps)
    q = _heads(h, w, "q", a.heads)
    q = _rotated(_norm(q, w["q_norm.weight"], config.eps), positions, a)
    keys, values = _keys_values(config, w, a, h, positions)
    if context.length:
        keys, values = (
            torch.cat((kept[index], own)) for kept, own in ((context.keys, keys), (context.values, values))
        )
    mixed = _attend(
        q, keys, values, _visible(positions, len(keys), a.window, causal), a, w.get("sinks.weight")
    )
    x = x + functional.linear(mixed, w["o.weight"], w.get("o.bias"))
    h = _norm(x, w["mlp_norm.weight"], config.eps)
    return x + (functional.silu(h @ w["gate.weight"].T) * (h @ w["up.weight"].T)) @ w["down.weight"].T


def _keys_values(
    config: DrafterConfig, w: Mapping[str, Tensor], a: Attention, states: Tensor, positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Of the target's states, or of the block: the same weights make both."""
    keys = _norm(_heads(states, w, "k", a.kv_heads), w["k_norm.weight"], config.eps)
    return _rotated(keys, positions, a), _heads(states, w, "v", a.kv_heads) * a.value_scale


def _heads(h: Tensor, w: Mapping[str, Tensor], name: str, heads: int) -> Tensor:
    return functional.linear(h, w[f"{name}.weight"], w.get(f"{name}.bias")).reshape(len(h), heads, -1)


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _rotated(x: Tensor, positions: Tensor, a: Attention) -> Tensor:
    """x [rows, heads, dim]; pairs are half of ``rope.dims`` apart, what is behind them passes."""
    angles = positions[:, None].float() * torch.from_numpy(a.rope.inv_freq)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    first, second = x[..., : a.rope.dims].chunk(2, dim=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    return torch.cat((*turned, x[..., a.rope.dims :]), dim=-1)


def _visible(positions: Tensor, keys: int, window: int, causal: bool) -> Tensor:
    """bool [block, keys]; key j is at position j. A window looks as far ahead as back."""
    distance = positions[:, None] - torch.arange(keys)
    seen = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    return seen & (distance.abs() < window) if window else seen


def _attend(
    q: Tensor, keys: Tensor, values: Tensor, seen: Tensor, a: Attention, sinks: Tensor | None
) -> Tensor:
    """[block, heads * value_dim]. A sink is one more score of its head, without a value."""
    group = a.heads // a.kv_heads
    keys, values = (part.repeat_interleave(group, dim=1).transpose(0, 1) for part in (keys, values))
    scores = (q.transpose(0, 1) @ keys.transpose(1, 2) * a.scale).masked_fill(~seen, -torch.inf)
    if sinks is None:
        weights = scores.softmax(-1)
    else:
        column = sinks[:, None, None].expand(-1, len(q), 1)
        weights = torch.cat((scores, column), dim=-1).softmax(-1)[..., :-1]
    return (weights @ values).transpose(0, 1).flatten(1)
