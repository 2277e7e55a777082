"""Llama and its many kin (SmolLM2, TinyLlama, ...): no biases; GGUF files have q and k rows permuted so that
RoPE pairs are neighbours."""

from __future__ import annotations

from .config import ModelConfig
from .metadata import Metadata


def config(meta: Metadata) -> ModelConfig:
    return meta.dense("llama", interleaved=True, qkv_bias=False)
