"""Qwen3: no biases (unless a config asks for them), q and k normalised head by head, heads wider than
``hidden / heads``."""

from __future__ import annotations

from .config import Dense, Layer, ModelConfig
from .metadata import Metadata
from .qwen2 import dense
from .settings import Settings


def from_gguf(meta: Metadata) -> ModelConfig:
    basics = meta.basics()
    attention = basics.attention(meta.rope(basics.head_dim), qk_norm=True)
    layer = Layer(attention, Dense(meta.integer("feed_forward_length")))
    return basics.config("qwen3", [layer] * basics.layers)


def from_settings(settings: Settings) -> ModelConfig:
    bias = settings.flag("attention_bias")
    return dense(settings, "qwen3", bias=bias, out_bias=bias, qk_norm=True)
