"""Bytes that one step reads, and how fast that can be: a roofline, no more.

A step of a block of T rows reads every dense weight once, and of each mixture the experts that any row chose:
where rows choose k of E independently, ``E * (1 - (1 - k/E)^T)`` of them. Where a row has a part s of the
experts of the row before and chooses the rest afresh, T rows choose like one of k and T - 1 of
``(1 - s) * k``. KV is read once for all rows. What is computed, and what ranks tell each other, comes on top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..models.config import Mixture, ModelConfig, Role, Weight
from .stored import HALF


@dataclass(frozen=True, slots=True)
class Step:
    """Bytes that one step reads, on all ranks together. ``distinct``: experts of a layer, on average."""

    block: int
    distinct: float
    experts: float
    attention: float
    other: float
    """Dense MLPs, routers, norms and the head."""
    kv: float
    drafter: float = 0.0

    @property
    def bytes(self) -> float:
        return self.experts + self.attention + self.other + self.kv + self.drafter

    def seconds(self, bandwidth: float) -> float:
        """``bandwidth`` in bytes a second, of all ranks."""
        return self.bytes / bandwidth


@dataclass(frozen=True, slots=True)
class Load:
    """What a step is like: ``block`` rows (1: no speculation), ``context`` positions behind them."""

    block: int = 1
    context: int = 4096
    shared: float = 0.0
    """Part of the experts of a row that the row before it has too, beyond chance."""


def distinct(mixture: Mixture, load: Load) -> float:
    """Experts of a layer that a step reads, expected."""
    part = mixture.top_k / mixture.experts
    rest = (1 - part * (1 - load.shared)) ** (load.block - 1)
    return float(mixture.experts * (1 - (1 - part) * rest))


def step(
    config: ModelConfig,
    bits: Callable[[Weight], float],
    load: Load,
    ranks: int = 1,
    drafter: float = 0.0,
) -> Step:
    """``bits`` of each weight as it is when it is read; ``drafter`` bytes that a draft reads. Where there are
    more ranks than KV heads, several read the same KV."""
    found = dict.fromkeys(Role, 0.0)
    for weight in config.weights():
        found[weight.role] += weight.size * bits(weight) / 8 * _part_read(config, weight, load)
    mixtures = [layer.mlp for layer in config.layers if isinstance(layer.mlp, Mixture)]
    counts = [distinct(mixture, load) for mixture in mixtures]
    head = found[Role.EMBEDDING] if config.tied else 0.0
    return Step(
        block=load.block,
        distinct=sum(counts) / len(counts) if counts else 0.0,
        experts=found[Role.EXPERTS],
        attention=found[Role.ATTENTION],
        other=head + sum(found[role] for role in (Role.MLP, Role.ROUTER, Role.NORM, Role.HEAD)),
        kv=kv_bytes(config, load.context, ranks),
        drafter=drafter,
    )


def _part_read(config: ModelConfig, weight: Weight, load: Load) -> float:
    if weight.role is not Role.EXPERTS:
        return 1.0
    mixture = config.layers[int(weight.name.split(".")[1])].mlp
    assert isinstance(mixture, Mixture)
    return distinct(mixture, load) / mixture.experts


def kv_bytes(config: ModelConfig, context: int, ranks: int = 1) -> float:
    """Bytes of K and V in bfloat16 behind one position, of all ranks: a head that several have counts as
    often."""
    total = 0.0
    for layer in config.layers:
        attention = layer.attention
        seen = min(context, attention.window or context)
        total += attention.kv_bytes * seen * max(1.0, ranks / attention.kv_heads)
    return total


def drafter_parameters(values: Mapping[str, Any]) -> int:
    """Weights of a DFlash drafter by its config.json: dense layers, and a projection of the target's
    features. It has no embedding and no head of its own."""
    hidden, wide = int(values["hidden_size"]), int(values["intermediate_size"])
    heads, kv_heads = int(values["num_attention_heads"]), int(values["num_key_value_heads"])
    head_dim = int(values.get("head_dim") or hidden // heads)
    taps = len((values.get("dflash_config") or values)["target_layer_ids"])
    attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim + 2 * head_dim
    layer = attention + 3 * hidden * wide + 2 * hidden
    return int(values["num_hidden_layers"]) * layer + taps * hidden * hidden + 2 * hidden


def drafter_bytes(values: Mapping[str, Any], config: ModelConfig, bits: Callable[[Weight], float]) -> float:
    """What one draft reads: the drafter in bfloat16, and the target's head once more."""
    head = Role.EMBEDDING if config.tied else Role.HEAD
    again = sum(w.size * bits(w) / 8 for w in config.weights() if w.role is head)
    return drafter_parameters(values) * HALF / 8 + again
