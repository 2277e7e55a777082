"""Where each block of a transcript lies: rows before it, rows in all."""

from __future__ import annotations

from bisect import bisect_right

from ultra_tui.transcript.blocks import Block


class Layout:
    """The blocks in order with the heights last known, and which row belongs to which block."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._heights: list[int] = []
        self._starts: list[int] = [0]  # valid for the blocks before _dirty, and for _dirty itself
        self._dirty = 0

    def __len__(self) -> int:
        return len(self.blocks)

    def insert(self, index: int, block: Block, height: int) -> None:
        """Put a block of ``height`` rows before the one at ``index``."""
        self.blocks.insert(index, block)
        self._heights.insert(index, height)
        self._touch(index)

    def remove(self, index: int) -> None:
        """Take a block out."""
        del self.blocks[index], self._heights[index]
        self._touch(index)

    def set_height(self, index: int, height: int) -> bool:
        """Note the height of a block; True if it changed."""
        if self._heights[index] == height:
            return False
        self._heights[index] = height
        self._touch(index)
        return True

    def clear(self) -> None:
        """Forget all blocks."""
        self.blocks, self._heights, self._starts, self._dirty = [], [], [0], 0

    @property
    def rows(self) -> int:
        """Rows of all blocks."""
        self._settle()
        return self._starts[-1]

    def start(self, index: int) -> int:
        """The first row of a block, its gap included."""
        self._settle()
        return self._starts[index]

    def locate(self, row: int) -> tuple[int, int]:
        """The block that holds ``row``, which must exist, and the offset of the row in it."""
        self._settle()
        assert 0 <= row < self._starts[-1], "row outside the transcript"
        index = bisect_right(self._starts, row) - 1
        return index, row - self._starts[index]

    def _touch(self, index: int) -> None:
        self._dirty = min(self._dirty, index)

    def _settle(self) -> None:
        count = len(self._heights)
        if self._dirty >= count and len(self._starts) == count + 1:
            return
        del self._starts[self._dirty + 1 :]
        total = self._starts[-1]
        for height in self._heights[self._dirty :]:
            total += height
            self._starts.append(total)
        self._dirty = count
