"""Adapter for the public trial of header sizes: names through the reader of safetensors files."""

from __future__ import annotations

from pathlib import Path

from ultra_engine.weights.shard import Shard


def names(path: str) -> list[str]:
    shard = Shard(Path(path))
    try:
        return sorted(shard.tensors)
    finally:
        shard.close()
