"""Where packed weights live: one piece of memory, filled from the layout of the file by C++ threads."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ..formats import FORMATS
from ..step import Packed
from . import abi

CODES = {name: code for code, name in enumerate(FORMATS)}
"""The formats as ``src/layout.h`` numbers them."""

_ALIGN = 64  # a cache line


def packs(matrix: Packed) -> bool:
    """Whether a matrix is multiplied in packed order: those whose weights are integers times a scale."""
    return matrix.format.block > 1 and matrix.format.name != "fp8_block"


class Arena:
    """Room for the packed form of some matrices; `pack` fills it, one matrix after another.

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

    def pack(self, matrix: Packed, threads: int) -> npt.NDArray[np.uint8]:
        """The matrix in packed order: uint8 [groups * lanes, row_bytes]."""
        rows, row_bytes = matrix.data.shape
        size = self._size(matrix)
        assert self._used + size <= len(self._memory), "more than the arena was made for"
        place = self._memory[self._used : self._used + size]
        self._used += size
        source = matrix.data.numpy()
        abi.load().ultra_cpu_pack(
            *(self._level, CODES[matrix.format.name], rows, row_bytes),
            *(source.ctypes.data, place.ctypes.data, threads),
        )
        whole = -(-rows // self._lanes) * self._lanes
        return place[: whole * row_bytes].reshape(whole, row_bytes)


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
