"""Where packed weights live: one piece of memory, filled from the layout of the file by C++ threads."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt

from ..formats import FORMATS
from ..program import Buffer
from ..step import Packed, Weight, packed_bytes
from . import abi

CODES = {name: code for code, name in enumerate(FORMATS)}
"""The formats as ``src/layout.h`` numbers them."""

_ALIGN = 64  # a cache line

_BATCH = 1 << 26
"""Bytes of weights that are packed in one call, during which other threads of Python run."""


Place = Callable[[Buffer, npt.NDArray[np.uint8], bool], None]


def packs(matrix: Weight) -> bool:
    """Whether a matrix is multiplied in packed order: those whose weights are integers times a scale."""
    return matrix.format.block > 1 and matrix.format.name != "fp8_block"


def lay_out(
    level: str,
    buffers: Sequence[Buffer],
    weights: Mapping[str, Weight],
    chosen: Set[str],
    threads: int,
    place: Place,
) -> None:
    """Load every weight, and call ``place`` with its buffer, its bytes [rows, row_bytes], and whether they
    are packed: those ``chosen`` by name are. Of weights that have to be read there is one at a time, apart
    from what ``place`` keeps. Raises `MemoryError`."""
    arena = Arena(level, (weights[buffer.name] for buffer in buffers if buffer.name in chosen))
    for some in _batches(buffers, weights):
        _lay_out(arena, some, weights, chosen, threads, place)


def _lay_out(
    arena: Arena,
    buffers: Sequence[Buffer],
    weights: Mapping[str, Weight],
    chosen: Set[str],
    threads: int,
    place: Place,
) -> None:
    loaded = [(buffer, weights[buffer.name].load()) for buffer in buffers]
    moved = iter(arena.pack([weight for buffer, weight in loaded if buffer.name in chosen], threads))
    for buffer, weight in loaded:
        packed = buffer.name in chosen
        place(buffer, next(moved) if packed else weight.data.numpy(), packed)


def _batches(buffers: Sequence[Buffer], weights: Mapping[str, Weight]) -> Iterator[list[Buffer]]:
    """Runs of buffers whose weights are at hand and have about `_BATCH` bytes; others are alone."""
    batch: list[Buffer] = []
    size = 0
    for buffer in buffers:
        weight = weights[buffer.name]
        at_hand = isinstance(weight, Packed)
        if batch and not at_hand:
            yield batch
            batch, size = [], 0
        batch.append(buffer)
        size += packed_bytes(weight)
        if size >= _BATCH or not at_hand:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Arena:
    """Room for the packed form of some matrices; `pack` fills it.

    Packed rows lie in groups of as many as the level has lanes (``src/pack.h``): a change of order without
    loss. Raises `MemoryError` where there is no room.
    """

    def __init__(self, level: str, matrices: Iterable[Weight]) -> None:
        self._level = level.encode()
        self._lanes = int(abi.load().ultra_cpu_lanes(self._level))
        self._used = 0
        self._memory = _reserve(sum(self._size(matrix) for matrix in matrices))

    def _size(self, matrix: Weight) -> int:
        rows, columns = matrix.shape
        whole = -(-rows // self._lanes) * self._lanes
        return -(-whole * matrix.format.row_bytes(columns) // _ALIGN) * _ALIGN

    def pack(self, matrices: Sequence[Packed], threads: int) -> list[npt.NDArray[np.uint8]]:
        """The matrices in packed order: uint8 [groups * lanes, row_bytes] each."""
        places = [self._take(matrix) for matrix in matrices]
        records = (abi.PackRecord * len(matrices))()
        for record, matrix, place in zip(records, matrices, places, strict=True):
            rows, row_bytes = matrix.data.shape
            record.rows, record.row_bytes = rows, row_bytes
            record.source, record.target = matrix.data.data_ptr(), place.ctypes.data
            record.format = CODES[matrix.format.name]
        abi.load().ultra_cpu_pack(self._level, ctypes.addressof(records), len(records), threads)
        return places

    def _take(self, matrix: Packed) -> npt.NDArray[np.uint8]:
        rows, row_bytes = matrix.data.shape
        whole = -(-rows // self._lanes) * self._lanes
        place = self._memory[self._used : self._used + whole * row_bytes]
        self._used += self._size(matrix)
        assert self._used <= len(self._memory), "more than the arena was made for"
        return place.reshape(whole, row_bytes)


def _reserve(size: int) -> npt.NDArray[np.uint8]:
    """Zeroed memory that is touched only as it is filled."""
    if not size or sys.platform == "win32":
        return np.zeros(size, dtype=np.uint8)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"the weights need {size / 1e9:.1f} GB of memory: {error.strerror}") from None
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)  # a page walk for every 4 kB would cost a tenth of the speed
    return np.frombuffer(memory, dtype=np.uint8)
