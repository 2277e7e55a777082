"""Qwen2 and Qwen2.5: biases on q, k and v; RoPE on halves; small ones tie head and embedding."""

from __future__ import annotations

from .config import ModelConfig
from .metadata import Metadata


def config(meta: Metadata) -> ModelConfig:
    return meta.dense("qwen2", interleaved=False, qkv_bias=True)
