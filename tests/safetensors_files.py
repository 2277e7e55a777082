"""Safetensors bytes for tests: sound files by the format's own library, and files with one thing wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

INDEX = "model.safetensors.index.json"


def raw(header: bytes | str | Mapping[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    """One file; ``length`` is the header's length where that is a lie."""
    text = header if isinstance(header, (bytes, str)) else json.dumps(header)
    body = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return struct.pack("<Q", len(body) if length is None else length) + body + data


def entry(dtype: Any = "F32", shape: Any = (2,), ends: Any = (0, 8)) -> dict[str, Any]:
    """One tensor of a header; everything may be a lie."""
    return {"dtype": dtype, "shape": shape, "data_offsets": ends}


def write(
    folder: Path,
    tensors: Mapping[str, torch.Tensor],
    *,
    config: Mapping[str, Any] = {},
    shards: int = 1,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """A sound checkpoint; its tensors are dealt out to so many files, with an index if there are several."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors", {"format": "pt"})
        return folder
    names = list(tensors)
    listed = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        some: Sequence[str] = names[number::shards]
        save_file({name: tensors[name] for name in some}, folder / file, {"format": "pt"})
        listed |= dict.fromkeys(some, file)
    index = {"metadata": dict(metadata or {}), "weight_map": listed}
    (folder / INDEX).write_text(json.dumps(index))
    return folder


def as_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
