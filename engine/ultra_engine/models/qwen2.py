"""Qwen2 and Qwen2.5: biases on q, k and v; small ones tie head and embedding."""

from __future__ import annotations

from .config import Dense, Layer, ModelConfig
from .metadata import Metadata
from .settings import SLIDING, Settings


def from_gguf(meta: Metadata) -> ModelConfig:
    basics = meta.basics()
    attention = basics.attention(meta.rope(basics.head_dim), bias=True)
    layer = Layer(attention, Dense(meta.integer("feed_forward_length")))
    return basics.config("qwen2", [layer] * basics.layers)


def from_settings(settings: Settings) -> ModelConfig:
    return dense(settings, "qwen2", bias=True)


def dense(settings: Settings, family: str, **options: bool) -> ModelConfig:
    """A dense Qwen, some of whose layers may slide; ``options`` are fields of `Attention`."""
    basics = settings.basics()
    kinds, mlp = settings.layer_kinds(basics.layers), Dense(settings.integer("intermediate_size"))
    window = settings.integer("sliding_window", default=4096, top=1 << 30) if SLIDING in kinds else 0
    rope = settings.rope(basics.head_dim)
    layers = {
        kind: Layer(basics.attention(rope, window=window if kind == SLIDING else 0, **options), mlp)
        for kind in set(kinds)
    }
    return basics.config(family, [layers[kind] for kind in kinds])
