"""Where packed weights live: one piece of memory, filled from the layout of the file by C++ threads."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import numpy as np
import numpy.typing as npt

from ..formats import FORMATS
from ..program import Buffer
from ..step import Packed
from . import abi

CODES = {name: code for code, name in enumerate(FORMATS)}
"""The formats as ``src/layout.h`` numbers them."""

_ALIGN = 64  # a cache line

_BATCH = 1 << 26
"""Bytes of weights that are packed in one call, during which other threads of Python run."""


def packs(matrix: Packed) -> bool:
    """Whether a matrix is multiplied in packed order: those whose weights are integers times a scale."""
    return matrix.format.block > 1 and matrix.format.name != "fp8_block"


def lay_out(
    level: str, buffers: Sequence[Buffer], weights: Mapping[str, Packed], chosen: Set[str], threads: int
) -> Iterator[tuple[Buffer, npt.NDArray[np.uint8], bool]]:
    """Every buffer with its weight's bytes, [rows, row_bytes], and whether they are packed: those ``chosen``
    by name are. Raises `MemoryError`."""
    arena = Arena(level, (weights[buffer.name] for buffer in buffers if buffer.name in chosen))
    for some in _batches(buffers, weights):
        names = [buffer.name for buffer in some if buffer.name in chosen]
        packed = dict(zip(names, arena.pack([weights[name] for name in names], threads), strict=True))
        for buffer in some:
            plain: npt.NDArray[np.uint8] = weights[buffer.name].data.numpy()
            yield buffer, packed.get(buffer.name, plain), buffer.name in packed


def _batches(buffers: Sequence[Buffer], weights: Mapping[str, Packed]) -> Iterator[list[Buffer]]:
    """Runs of buffers whose weights have about `_BATCH` bytes."""
    batch: list[Buffer] = []
    size = 0
    for buffer in buffers:
        batch.append(buffer)
        size += weights[buffer.name].data.numel()
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class Arena:
    """Room for the packed form of some matrices; `pack` fills it.

    Packed rows lie in groups of as many as the level has lanes (``src/pack.h``): a change of order without
    loss. Raises `MemoryError` where there is no room.
    """

    def __init__(self, level: str, matrices: Iterable[Packed]) -> None:
        self._level = level.encode()
        self._lanes = int(abi.load().ultra_cpu_lanes(self._level))
        self._used = 0
        self._memory = _reserve(sum(self._size(matrix) for matrix in matrices))

    def _size(self, matrix: Packed) -> int:
        rows, row_bytes = matrix.data.shape
        return -(-(-(-rows // self._lanes) * self._lanes * row_bytes) // _ALIGN) * _ALIGN

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
