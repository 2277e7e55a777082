"""Llama and its many kin (SmolLM2, TinyLlama, ...). GGUF files have q and k rows permuted so that RoPE pairs
are neighbours; safetensors have them half a head apart."""

from __future__ import annotations

from .config import Dense, Layer, ModelConfig
from .metadata import Metadata
from .settings import Settings


def from_gguf(meta: Metadata) -> ModelConfig:
    basics = meta.basics()
    rope = meta.rope(basics.head_dim, interleaved=True)
    biases = {"bias": meta.has("attn_q.bias"), "out_bias": meta.has("attn_output.bias")}
    layer = Layer(basics.attention(rope, **biases), Dense(meta.integer("feed_forward_length")))
    return basics.config("llama", [layer] * basics.layers)


def from_settings(settings: Settings) -> ModelConfig:
    basics, bias = settings.basics(), settings.flag("attention_bias")
    if settings.flag("mlp_bias"):
        settings.refuse("mlp_bias; supported: an MLP without biases")
    attention = basics.attention(settings.rope(basics.head_dim), bias=bias, out_bias=bias)
    layer = Layer(attention, Dense(settings.integer("intermediate_size")))
    return basics.config("llama", [layer] * basics.layers)
