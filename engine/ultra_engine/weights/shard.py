"""One safetensors file: its header, checked before it is believed, and its mapped data.

The format: 8 bytes with the header's length, the header (a JSON object, tensor name -> dtype, shape and the
two ends of its bytes, counted from the end of the header), then the tensors, without holes between them. The
`safetensors` package reads the same, but hands out views only through a framework of its own, and its errors
name neither file nor tensor. Nothing is allocated or multiplied before it was compared with the file's size.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError
from .gguf_cursor import shown
from .json_file import parse_object

HEADER_LIMIT = 100_000_000
"""Bytes; the number of the format's own library."""

MAX_DIMS = 8

BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("BF16", "F16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""The dtypes of the format, and bits of one element."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor: its dtype in the words of safetensors ("BF16", "F8_E4M3", "U8", ...), and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that it has in its file."""
        return prod(self.shape) * BITS[self.dtype] // 8


class Shard:
    """An open file. ``tensors``: every tensor by name; ``metadata``: the strings under ``__metadata__``."""

    def __init__(self, path: Path) -> None:
        """Map the file and read its header. Raises `ModelFileError` for any fault in it."""
        self.path = path
        self._map: mmap.mmap | None = _map(path)
        try:
            self._begin, header = _header(path, self._map)
            self.metadata = _metadata(path, header.pop("__metadata__", {}))
            found = [_entry(path, name, value) for name, value in header.items()]
            _check_layout(path, found, len(self._map) - self._begin)
        except BaseException:
            self.close()
            raise
        self.tensors = {entry.name: entry for entry, _ in found}
        self._starts = {entry.name: start for entry, start in found}

    def data(self, name: str, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Bytes [start, stop) of a tensor: a read-only view of the mapped file."""
        assert self._map is not None, "the file is closed"
        assert 0 <= start <= stop <= self.tensors[name].nbytes
        at = self._begin + self._starts[name] + start
        return np.frombuffer(self._map, np.uint8, stop - start, at)

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


def _map(path: Path) -> mmap.mmap:
    try:
        if not path.is_file():
            raise ModelFileError(path, "not a file" if path.exists() else "no such file")
        with path.open("rb") as file:
            if path.stat().st_size < 10:
                raise ModelFileError(path, "truncated: shorter than a safetensors header")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise ModelFileError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _header(path: Path, data: mmap.mmap) -> tuple[int, dict[str, Any]]:
    """Where the tensors begin, and the header."""
    length = int.from_bytes(data[:8], "little")
    if data[8:9] != b"{":
        raise ModelFileError(path, f"not a safetensors file: its header begins with {data[8:12]!r}")
    if length > HEADER_LIMIT:
        raise ModelFileError(path, f"a header of {length} bytes; at most {HEADER_LIMIT} are allowed")
    if 8 + length > len(data):
        raise ModelFileError(path, f"truncated: the header ends at byte {8 + length} of {len(data)}")
    return 8 + length, parse_object(path, data[8 : 8 + length], "the header")


def _metadata(path: Path, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ModelFileError(path, "__metadata__ is not an object of strings")
    return value


def _entry(path: Path, name: str, value: Any) -> tuple[Entry, int]:
    """One tensor of the header, and where it starts."""

    def fail(reason: str) -> NoReturn:
        raise ModelFileError(path, f"tensor {shown(name)}: {reason}")

    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        fail("its entry is not an object with dtype, shape and data_offsets")
    dtype, shape, ends = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        fail(f"dtype {str(dtype)[:40]!r} is none of safetensors")
    if not _counts(shape) or len(shape) > MAX_DIMS:
        fail(f"its shape is not a list of at most {MAX_DIMS} sizes")
    if not _counts(ends) or len(ends) != 2 or ends[0] > ends[1]:
        fail("its data_offsets are not the two ends of a range")
    bits, size = prod(shape) * BITS[dtype], ends[1] - ends[0]
    if bits != size * 8:
        fail(f"{dtype} {shape} does not fill its {size} bytes exactly")
    return Entry(name, dtype, tuple(shape)), ends[0]


def _counts(value: Any) -> bool:
    """Whether it is a list of integers from 0 to 2^63 - 1."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value)


def _check_layout(path: Path, found: list[tuple[Entry, int]], size: int) -> None:
    """The tensors fill the data without holes, and none lies on top of another."""
    at, last = 0, ""
    for entry, start in sorted(found, key=lambda item: (item[1], item[1] + item[0].nbytes)):
        name, end = shown(entry.name), start + entry.nbytes
        if end > size:
            raise ModelFileError(path, f"truncated: tensor {name} ends at byte {end} of {size} of data")
        if start < at:
            raise ModelFileError(path, f"tensors {last} and {name} overlap")
        if start > at:
            raise ModelFileError(path, f"{start - at} bytes before tensor {name} belong to no tensor")
        at, last = end, name
    if at != size:
        raise ModelFileError(path, f"{size - at} bytes after the last tensor belong to no tensor")
