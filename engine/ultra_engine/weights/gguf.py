"""GGUF files: metadata and memory-mapped tensors.

The parser is our own, because the ``GGUFReader`` of the `gguf` package believes every count in the file (a
few bytes can make it hang, exhaust memory or wrap a tensor's size around 2^64) and takes seconds for a
vocabulary of 150,000 tokens. Here nothing is allocated, multiplied or read before it was compared with the
size of the file.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from ..errors import ModelFileError
from .ggml import MAGIC, TensorType, ValueType
from .gguf_cursor import Cursor, shown

DEFAULT_ALIGNMENT = 32
MAX_DIMS = 4
VERSIONS = (2, 3)

_ENTRY_BYTES = 13  # the least that one metadata entry takes: key length, type, one byte
_TENSOR_BYTES = 32  # the least that one tensor's entry takes: name length, n_dims, one dim, type, offset

T = TypeVar("T")
D = TypeVar("D")
_REQUIRED = object()


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor: ``shape`` is row-major ([out, in]), ``offset`` counts bytes from the start of the file."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    nbytes: int


class GGUFFile:
    """An open GGUF file; use `open`, and close it or use it as a context manager.

    metadata: every key of the file; values are bool, int, float, str, or lists of these.
    tensors: every tensor by name, in the file's order.
    """

    def __init__(
        self, path: Path, data: mmap.mmap, metadata: dict[str, Any], tensors: dict[str, TensorInfo]
    ) -> None:
        self.path, self.metadata, self.tensors = path, metadata, tensors
        self.size = len(data)
        self._map: mmap.mmap | None = data

    @classmethod
    def open(cls, path: str | Path) -> GGUFFile:
        """Map the file and read its header. Raises `ModelFileError` for any fault in it."""
        path = Path(path)
        data = _map(path)
        try:
            cursor = Cursor(path, data)
            n_tensors, n_entries = _preamble(cursor)
            metadata = _metadata(cursor, n_entries)
            return cls(path, data, metadata, _tensors(cursor, n_tensors, metadata))
        except BaseException:
            data.close()
            raise

    def data(self, name: str) -> np.ndarray:
        """The bytes of one tensor: a read-only uint8 view of the mapped file, ``nbytes`` long."""
        assert self._map is not None, "the file is closed"
        info = self.tensors[name]
        return np.frombuffer(self._map, np.uint8, info.nbytes, info.offset)

    @overload
    def field(self, key: str, kind: type[T]) -> T: ...
    @overload
    def field(self, key: str, kind: type[T], default: D) -> T | D: ...
    def field(self, key: str, kind: type[Any], default: Any = _REQUIRED) -> Any:
        """The metadata value of ``key``, an int also where a float is asked for.

        Raises `ModelFileError` if it has another type, or is absent and no default is given.
        """
        if key not in self.metadata:
            if default is _REQUIRED:
                raise ModelFileError(self.path, f"metadata {key} is missing")
            return default
        value = self.metadata[key]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            reason = f"metadata {key} is a {type(value).__name__}, not a {kind.__name__}"
            raise ModelFileError(self.path, reason)
        return value

    def release(self) -> None:
        """Give back the memory of the pages read so far; they are read again when they are touched."""
        assert self._map is not None, "the file is closed"
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Release the file; views handed out by `data` stay valid until they are dropped themselves."""
        mapped, self._map = self._map, None
        if mapped is not None:
            try:
                mapped.close()
            except BufferError:
                pass  # views are alive: the mapping goes with the last of them

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _map(path: Path) -> mmap.mmap:
    try:
        if not path.is_file():
            raise ModelFileError(path, "not a file" if path.exists() else "no such file")
        with path.open("rb") as file:
            if path.stat().st_size < 24:
                raise ModelFileError(path, "not a GGUF file: shorter than a GGUF header")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ModelFileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _preamble(cursor: Cursor) -> tuple[int, int]:
    """Check magic and version; return the tensor count and the metadata count."""
    if cursor.u32("the magic") != MAGIC:
        cursor.fail(f"not a GGUF file: it begins with {bytes(cursor.data[:4])!r}")
    version = cursor.u32("the version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if swapped in VERSIONS:
            cursor.fail("a big-endian GGUF file; only little-endian files are supported")
        cursor.fail(f"GGUF version {version} is not supported; versions 2 and 3 are")
    n_tensors, n_entries = cursor.u64("the tensor count"), cursor.u64("the metadata count")
    if n_tensors * _TENSOR_BYTES + n_entries * _ENTRY_BYTES > cursor.end - cursor.at:
        cursor.fail(f"truncated or corrupt: {n_tensors} tensors and {n_entries} metadata entries cannot fit")
    return n_tensors, n_entries


def _metadata(cursor: Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for index in range(count):
        key = cursor.name(f"metadata key {index}")
        what = f"metadata {shown(key)}"
        if key in metadata:
            cursor.fail(f"{what} appears twice")
        kind = cursor.kind(what)
        if key == "general.alignment" and kind is not ValueType.UINT32:
            cursor.fail(f"{what} is not a 32-bit number")
        metadata[key] = cursor.value(kind, what)
    return metadata


def _tensors(cursor: Cursor, count: int, metadata: dict[str, Any]) -> dict[str, TensorInfo]:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if alignment <= 0 or alignment & (alignment - 1):
        cursor.fail(f"general.alignment is {alignment}, not a power of two")
    found: dict[str, TensorInfo] = {}
    for index in range(count):
        info = _tensor(cursor, index, alignment)
        if info.name in found:
            cursor.fail(f"tensor {shown(info.name)} appears twice")
        found[info.name] = info
    start = -(-cursor.at // alignment) * alignment
    placed = {n: TensorInfo(n, t.shape, t.type, start + t.offset, t.nbytes) for n, t in found.items()}
    _check_layout(cursor, placed)
    return placed


def _tensor(cursor: Cursor, index: int, alignment: int) -> TensorInfo:
    """One entry; the offset is still relative to the start of the tensor data."""
    name = cursor.name(f"the name of tensor {index}")
    what = f"tensor {shown(name)}"
    n_dims = cursor.u32(what)
    if not 1 <= n_dims <= MAX_DIMS:
        cursor.fail(f"{what} has {n_dims} dimensions, 1 to {MAX_DIMS} are possible")
    dims = [cursor.u64(what) for _ in range(n_dims)]
    number, offset = cursor.u32(what), cursor.u64(what)
    try:
        kind = TensorType(number)
    except ValueError:
        cursor.fail(f"{what} has type {number}, which this version does not know")
    block, block_bytes = kind.block
    if 0 in dims:
        cursor.fail(f"{what} has a zero dimension")
    if dims[0] % block:
        cursor.fail(f"{what} has rows of {dims[0]}, not a multiple of the {block} in a block of {kind.name}")
    if offset % alignment:
        cursor.fail(f"{what} begins at offset {offset}, which is not aligned to {alignment}")
    elements = 1
    for dim in dims:
        elements *= dim
    return TensorInfo(name, tuple(reversed(dims)), kind, offset, elements // block * block_bytes)


def _check_layout(cursor: Cursor, tensors: dict[str, TensorInfo]) -> None:
    """Every tensor lies inside the file and on top of no other."""
    last: TensorInfo | None = None
    for info in sorted(tensors.values(), key=lambda info: info.offset):
        end, name = info.offset + info.nbytes, shown(info.name)
        if end > cursor.size:
            cursor.fail(f"truncated: tensor {name} ends at byte {end}, the file has {cursor.size}")
        if last is not None and info.offset < last.offset + last.nbytes:
            cursor.fail(f"tensors {shown(last.name)} and {name} overlap")
        last = info
