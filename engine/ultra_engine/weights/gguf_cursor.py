"""Reading a GGUF header with every length checked against the file before it is used."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..errors import ModelFileError
from .ggml import ValueType

HEADER_LIMIT = 256 << 20
"""Bytes; no real header comes near (the largest vocabularies need about 10 MB)."""

ITEM_LIMIT = 1 << 23
"""Array items in one header, all arrays together."""

DEPTH_LIMIT = 4
"""Arrays in arrays."""

KEY_LIMIT = 65_535
"""Bytes in a metadata key or tensor name; the specification's number."""

_DTYPES: dict[ValueType, np.dtype[Any]] = {
    ValueType.UINT8: np.dtype("<u1"),
    ValueType.INT8: np.dtype("<i1"),
    ValueType.UINT16: np.dtype("<u2"),
    ValueType.INT16: np.dtype("<i2"),
    ValueType.UINT32: np.dtype("<u4"),
    ValueType.INT32: np.dtype("<i4"),
    ValueType.FLOAT32: np.dtype("<f4"),
    ValueType.BOOL: np.dtype("<u1"),
    ValueType.UINT64: np.dtype("<u8"),
    ValueType.INT64: np.dtype("<i8"),
    ValueType.FLOAT64: np.dtype("<f8"),
}
_LEAST_BYTES = {ValueType.STRING: 8, ValueType.ARRAY: 12}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


def shown(name: str) -> str:
    """A name from a file, fit for one line of an error message."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


class Cursor:
    """A position in a mapped file. Every method raises `ModelFileError` instead of reading past the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at = path, data, 0
        self.size = len(data)
        self.end = min(self.size, HEADER_LIMIT)
        self._items = 0

    def fail(self, reason: str) -> NoReturn:
        raise ModelFileError(self.path, reason)

    def need(self, count: int, what: str) -> None:
        """Check that ``count`` more bytes exist."""
        if self.at + count <= self.end:
            return
        if self.at + count <= self.size:
            self.fail(f"the header is larger than {HEADER_LIMIT >> 20} MiB ({what})")
        self.fail(f"truncated: {what} ends at byte {self.at + count}, the file has {self.size}")

    def u32(self, what: str) -> int:
        self.need(4, what)
        (value,) = _U32.unpack_from(self.data, self.at)
        self.at += 4
        return int(value)

    def u64(self, what: str) -> int:
        self.need(8, what)
        (value,) = _U64.unpack_from(self.data, self.at)
        self.at += 8
        return int(value)

    def name(self, what: str) -> str:
        """A metadata key or tensor name."""
        length = self.u64(what)
        if length > KEY_LIMIT:
            self.fail(f"{what} is {length} bytes long, at most {KEY_LIMIT} are allowed")
        return self._text(length, what)

    def _text(self, length: int, what: str) -> str:
        self.need(length, what)
        raw = self.data[self.at : self.at + length]
        self.at += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-8 text")

    def kind(self, what: str) -> ValueType:
        number = self.u32(what)
        try:
            return ValueType(number)
        except ValueError:
            self.fail(f"{what} has value type {number}, which GGUF does not define")

    def value(self, kind: ValueType, what: str, depth: int = 0) -> Any:
        """One metadata value: bool, int, float, str or a list of them."""
        if kind is ValueType.STRING:
            return self._text(self.u64(what), what)
        if kind is ValueType.ARRAY:
            return self._array(what, depth + 1)
        return self._scalars(kind, 1, what)[0]

    def _array(self, what: str, depth: int) -> list[Any]:
        if depth > DEPTH_LIMIT:
            self.fail(f"{what} nests arrays more than {DEPTH_LIMIT} deep")
        kind, count = self.kind(what), self.u64(what)
        # A count that cannot fit is refused here, before anything is allocated for it.
        self.need(count * (_LEAST_BYTES.get(kind) or _DTYPES[kind].itemsize), what)
        self._items += count
        if self._items > ITEM_LIMIT:
            self.fail(f"the metadata has more than {ITEM_LIMIT} array items ({what})")
        if kind is ValueType.STRING:
            return self._strings(count, what)
        if kind is ValueType.ARRAY:
            return [self._array(what, depth + 1) for _ in range(count)]
        return self._scalars(kind, count, what)

    def _scalars(self, kind: ValueType, count: int, what: str) -> list[Any]:
        dtype = _DTYPES[kind]
        self.need(count * dtype.itemsize, what)
        items = np.frombuffer(self.data[self.at : self.at + count * dtype.itemsize], dtype)
        self.at += count * dtype.itemsize
        return list((items != 0).tolist() if kind is ValueType.BOOL else items.tolist())

    def _strings(self, count: int, what: str) -> list[str]:
        # The one hot loop of a header (vocabulary and merges, 300,000 strings), hence the local names.
        data, at, end, unpack = self.data, self.at, self.end, _U64.unpack_from
        out: list[str] = []
        try:
            for _ in range(count):
                if at + 8 > end:
                    break
                start = at + 8
                at = start + unpack(data, at)[0]
                if at > end:
                    break
                out.append(data[start:at].decode("utf-8"))
        except UnicodeDecodeError:
            self.fail(f"{what}: item {len(out)} is not UTF-8 text")
        if len(out) < count:
            self.fail(f"truncated: {what} has {len(out)} whole items of {count}")
        self.at = at
        return out
