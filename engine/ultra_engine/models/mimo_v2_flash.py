"""MiMo-V2-Flash: `mimo_v2` with split q, k and v; its sliding layers have twice the KV heads of full ones."""

from __future__ import annotations

from .config import ModelConfig
from .mimo_v2 import config
from .settings import Settings


def from_settings(settings: Settings) -> ModelConfig:
    return config(settings, "mimo_v2_flash", sliding_kv_heads=2, partial=0.334)
