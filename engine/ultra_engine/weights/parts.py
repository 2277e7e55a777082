"""Runs of rows of a weight, each from one place in a checkpoint: what a `recipe.Recipe` is put together from.

Every part is read as uint8 [rows, bytes], for any range of its rows and columns, and touches only the bytes
that these need. Columns are cut between the blocks of the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from ultra_kernels.packing import FP8, MXFP4, SQUARE, fp8_from_rows, mxfp4_from_pairs

from .checkpoint import Checkpoint

_CODES = 16
"""Bytes of the values of one MXFP4 group."""


class Part(Protocol):
    """``rows`` rows in one format."""

    @property
    def rows(self) -> int: ...

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that it reads."""
        ...

    def read(self, checkpoint: Checkpoint, rows: range, columns: range) -> torch.Tensor:
        """uint8 [len(rows), bytes of len(columns)]; a view of the file where that is possible."""
        ...


@dataclass(frozen=True, slots=True)
class Strided:
    """A matrix in the elements of a tensor: that of row r and column c is number
    ``start + r * row_step + c * column_step``."""

    name: str
    start: int
    row_step: int
    column_step: int = 1

    def read(self, checkpoint: Checkpoint, rows: range, columns: range) -> torch.Tensor:
        """A view of [len(rows), len(columns)] in the stored dtype."""
        steps = self.row_step, self.column_step
        first = self.start + rows.start * steps[0] + columns.start * steps[1]
        last = self.start + (rows.stop - 1) * steps[0] + (columns.stop - 1) * steps[1]
        flat = checkpoint.flat(self.name, first, last + 1)
        return flat.as_strided((len(rows), len(columns)), steps)


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows of a float tensor, as they are."""

    rows: int
    source: Strided

    @property
    def tensors(self) -> tuple[str, ...]:
        return (self.source.name,)

    def read(self, checkpoint: Checkpoint, rows: range, columns: range) -> torch.Tensor:
        view = self.source.read(checkpoint, rows, columns)
        if not view.is_contiguous():  # NumPy copies on the thread that calls, and knows no bfloat16
            integers = view.view(torch.int16 if view.element_size() == 2 else torch.int32)
            view = torch.from_numpy(np.ascontiguousarray(integers.numpy()))
        return view.view(torch.uint8)


@dataclass(frozen=True, slots=True)
class Mxfp4Rows:
    """``values`` has 16 bytes and ``scales`` one byte for each 32 columns."""

    rows: int
    values: Strided
    scales: Strided

    @property
    def tensors(self) -> tuple[str, ...]:
        return self.values.name, self.scales.name

    def read(self, checkpoint: Checkpoint, rows: range, columns: range) -> torch.Tensor:
        groups = range(columns.start // MXFP4.block, columns.stop // MXFP4.block)
        values = self.values.read(checkpoint, rows, range(groups.start * _CODES, groups.stop * _CODES))
        scales = self.scales.read(checkpoint, rows, groups).view(torch.uint8)  # some files say F8_E8M0
        return mxfp4_from_pairs(values, scales).data


@dataclass(frozen=True, slots=True)
class GridRows:
    """FP8 codes whose row r has the scales of row ``(r + phase) // 128`` of ``scales``."""

    rows: int
    codes: Strided
    scales: Strided
    phase: int = 0

    @property
    def tensors(self) -> tuple[str, ...]:
        return self.codes.name, self.scales.name

    def read(self, checkpoint: Checkpoint, rows: range, columns: range) -> torch.Tensor:
        first, last = ((row + self.phase) // SQUARE for row in (rows.start, rows.stop - 1))
        across = range(columns.start // FP8.block, columns.stop // FP8.block)
        grid = self.scales.read(checkpoint, range(first, last + 1), across).float().numpy()
        scales = grid[(np.arange(rows.start, rows.stop) + self.phase) // SQUARE - first]
        return fp8_from_rows(self.codes.read(checkpoint, rows, columns), torch.from_numpy(scales)).data
