"""GGUF bytes for tests: sound files, and files with exactly one thing wrong."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gguf.constants import GGUFValueType as V

_PACK = {
    V.UINT8: "B",
    V.INT8: "b",
    V.UINT16: "H",
    V.INT16: "h",
    V.UINT32: "I",
    V.INT32: "i",
    V.FLOAT32: "f",
    V.BOOL: "?",
    V.UINT64: "Q",
    V.INT64: "q",
    V.FLOAT64: "d",
}


@dataclass
class Array:
    """An array value with an explicit item type, and a count that may lie."""

    kind: int
    items: Sequence[Any]
    count: int | None = None


@dataclass
class Tensor:
    """One tensor entry in file terms (``dims``: innermost first); every field may be a lie."""

    name: str
    dims: Sequence[int]
    type: int = 0
    offset: int | None = None
    n_dims: int | None = None
    data: bytes = b""


@dataclass
class Gguf:
    """The parts of a file; `bytes` joins them."""

    metadata: Sequence[tuple[str, int, Any]] = ()
    tensors: Sequence[Tensor] = ()
    version: int = 3
    magic: bytes = b"GGUF"
    alignment: int = 32
    n_tensors: int | None = None
    n_metadata: int | None = None
    tail: bytes = field(default=b"")

    def bytes(self) -> bytes:
        infos, blob = b"", b""
        for tensor in self.tensors:
            blob += bytes(-len(blob) % self.alignment)
            offset = len(blob) if tensor.offset is None else tensor.offset
            n_dims = len(tensor.dims) if tensor.n_dims is None else tensor.n_dims
            infos += text(tensor.name) + struct.pack("<I", n_dims)
            infos += struct.pack(f"<{len(tensor.dims)}QIQ", *tensor.dims, tensor.type, offset)
            blob += tensor.data
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_metadata = len(self.metadata) if self.n_metadata is None else self.n_metadata
        head = self.magic + struct.pack("<IQQ", self.version, n_tensors, n_metadata)
        for key, kind, value in self.metadata:
            head += text(key) + struct.pack("<I", kind) + packed(kind, value)
        head += infos
        return head + bytes(-len(head) % self.alignment) + blob + self.tail

    def write(self, path: Path) -> Path:
        path.write_bytes(self.bytes())
        return path


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def packed(kind: int, value: Any) -> bytes:
    if kind == V.STRING:
        return text(value)
    if kind == V.ARRAY:
        count = len(value.items) if value.count is None else value.count
        items = [packed(value.kind, item) for item in value.items]
        return struct.pack("<IQ", value.kind, count) + b"".join(items)
    return struct.pack("<" + _PACK[V(kind)], value)


def f32(name: str, *shape: int, seed: int = 0) -> Tensor:
    """A sound F32 tensor of random numbers; ``shape`` is row-major."""
    values = np.random.default_rng(seed).standard_normal(shape).astype("<f4")
    return Tensor(name, tuple(reversed(shape)), data=values.tobytes())


def entries(values: Mapping[str, Any]) -> list[tuple[str, int, Any]]:
    """Metadata from plain Python values: int -> uint32, float, bool, str, and lists of these."""
    return [(key, *_typed(value)) for key, value in values.items()]


def _typed(value: Any) -> tuple[int, Any]:
    if isinstance(value, list):
        kind = _typed(value[0])[0] if value else V.STRING
        return V.ARRAY, Array(V.INT32 if kind == V.UINT32 else kind, value)
    kinds: dict[type, V] = {bool: V.BOOL, int: V.UINT32, float: V.FLOAT32, str: V.STRING}
    return kinds[type(value)], value
