"""How one weight of a Program comes out of a checkpoint: its format and size, known before any data is read,
and the tensors, or parts of tensors, that its rows are.

The functions below make recipes. Each compares the shapes in the files' headers with those that the model's
config asks for, and raises `ModelFileError`, naming file and tensor, where they differ.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from math import prod

import numpy as np
import torch
from ultra_kernels.cpu.processors import default_threads
from ultra_kernels.formats import FORMATS, Format
from ultra_kernels.packing import FP8, MXFP4, SQUARE
from ultra_kernels.step import Packed

from ..errors import ModelFileError, UnsupportedModel
from .checkpoint import Checkpoint
from .gguf_cursor import shown
from .parts import GridRows, Mxfp4Rows, Part, PlainRows, Strided

PLAIN = {"BF16": FORMATS["bf16"], "F16": FORMATS["f16"], "F32": FORMATS["f32"]}
"""Stored dtypes that are weights as they are."""

ALL = slice(None)

MAX_READERS = 16
"""Threads that read the parts of one weight."""


class Axis(Enum):
    """What ranks share a weight by."""

    ROWS = "rows"
    """Outputs; of every expert, where there are several."""
    COLUMNS = "columns"
    """Inputs."""
    EXPERTS = "experts"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One weight: [rows, columns] in ``format``, its rows those of ``parts``, one after the other.

    experts: how many matrices are stacked in it.
    """

    format: Format
    rows: int
    columns: int
    parts: tuple[Part, ...]
    experts: int = 1

    def __post_init__(self) -> None:
        assert sum(part.rows for part in self.parts) == self.rows and self.rows % self.experts == 0

    @property
    def tensors(self) -> frozenset[str]:
        """The tensors that it reads."""
        return frozenset(name for part in self.parts for name in part.tensors)

    def read(self, checkpoint: Checkpoint) -> Packed:
        """The packed weight: a view of the file where it is one run of rows stored as they are, else new."""
        return self._cut(checkpoint, [range(self.rows)], range(self.columns))

    def read_rank(self, checkpoint: Checkpoint, rank: int, ranks: int, axis: Axis) -> Packed:
        """The share of one of ``ranks``; only its bytes of the files are touched.

        Raises `ValueError` where the weight cannot be shared equally among so many.
        """
        assert 0 <= rank < ranks
        each = self.rows // self.experts
        count, unit = {
            Axis.ROWS: (each, 1),
            Axis.COLUMNS: (self.columns, self.format.block),
            Axis.EXPERTS: (self.experts, 1),
        }[axis]
        if count % (ranks * unit):
            blocks = f" in blocks of {unit}" if unit > 1 else ""
            raise ValueError(f"{count} {axis.value}{blocks} cannot be shared equally by {ranks} ranks")
        mine = range(count // ranks * rank, count // ranks * (rank + 1))
        if axis is Axis.COLUMNS:
            return self._cut(checkpoint, [range(self.rows)], mine)
        if axis is Axis.EXPERTS:
            return self._cut(checkpoint, [range(mine.start * each, mine.stop * each)], range(self.columns))
        starts = range(0, self.rows, each)
        return self._cut(
            checkpoint, [range(at + mine.start, at + mine.stop) for at in starts], range(self.columns)
        )

    def _cut(self, checkpoint: Checkpoint, wanted: Sequence[range], columns: range) -> Packed:
        found = list(self._pieces(wanted))
        if len(found) == 1:
            part, rows = found[0]
            return Packed(self.format, part.read(checkpoint, rows, columns))
        total = sum(len(rows) for _, rows in found)
        out = np.empty((total, self.format.row_bytes(len(columns))), dtype=np.uint8)
        ends = list(accumulate(len(rows) for _, rows in found))

        def fill(piece: tuple[Part, range], end: int) -> None:
            part, rows = piece
            out[end - len(rows) : end] = part.read(checkpoint, rows, columns).numpy()

        # A part for each thread is all the memory above the result.
        with ThreadPoolExecutor(min(len(found), MAX_READERS, default_threads()), "ultra-read") as pool:
            for _ in pool.map(fill, found, ends):
                pass
        return Packed(self.format, torch.from_numpy(out))

    def _pieces(self, wanted: Sequence[range]) -> Iterator[tuple[Part, range]]:
        """The parts that have some of the rows, and which of theirs."""
        ends = list(accumulate(part.rows for part in self.parts))
        for rows in wanted:
            at = rows.start
            while at < rows.stop:
                index = bisect_right(ends, at)
                part, end = self.parts[index], min(ends[index], rows.stop)
                begin = ends[index] - part.rows
                yield part, range(at - begin, end - begin)
                at = end


# --- one tensor -------------------------------------------------------------------------------------


def plain(
    checkpoint: Checkpoint,
    name: str,
    shape: Sequence[int],
    *,
    rows: slice = ALL,
    columns: slice = ALL,
    transposed: bool = False,
) -> Recipe:
    """A float tensor of that shape: [columns], [rows, columns] or [experts, rows, columns].

    ``transposed``: it is stored as [..., columns, rows], and ``shape`` is that as stored. ``rows`` and
    ``columns`` choose some, of each expert: slice(0, None, 2) takes gpt-oss's gate out of ``gate_up_proj``.
    """
    _require(checkpoint, name, shape, tuple(PLAIN))
    high, wide = (1, *shape)[-2:]
    steps = (1, wide) if transposed else (wide, 1)
    if transposed:
        high, wide = wide, high
    down, across = range(high)[rows], range(wide)[columns]
    start = down.start * steps[0] + across.start * steps[1]
    strides = down.step * steps[0], across.step * steps[1]
    experts, size = prod(shape[:-2]), high * wide
    if strides == (wide, 1) and len(down) == high:  # the experts follow one another as rows do
        parts = [PlainRows(experts * high, Strided(name, start, *strides))]
    else:
        parts = [PlainRows(len(down), Strided(name, start + e * size, *strides)) for e in range(experts)]
    format = PLAIN[checkpoint.tensors[name].dtype]
    return Recipe(format, experts * len(down), len(across), tuple(parts), experts)


def matrix(checkpoint: Checkpoint, name: str, rows: int, columns: int) -> Recipe:
    """``name`` ("....weight") in whatever form it is stored: floats, FP8 with ``weight_scale_inv``, or MXFP4
    in MiMo's form, bytes with ``weight_scale``."""
    dtype = checkpoint.entry(name).dtype
    if dtype == "U8":
        return mxfp4(checkpoint, name, rows, columns)
    return (
        fp8(checkpoint, name, rows, columns)
        if dtype == "F8_E4M3"
        else plain(checkpoint, name, (rows, columns))
    )


def mxfp4(checkpoint: Checkpoint, name: str, rows: int, columns: int) -> Recipe:
    """MiMo's form: ``name`` U8 [rows, columns / 2] and ``name`` + "_scale" U8 [rows, columns / 32]."""
    groups = _blocks(checkpoint, name, MXFP4, columns)
    _require(checkpoint, name, (rows, groups * 16), ("U8",))
    _require(checkpoint, name + "_scale", (rows, groups), ("U8", "F8_E8M0"))
    part = Mxfp4Rows(rows, Strided(name, 0, groups * 16), Strided(name + "_scale", 0, groups))
    return Recipe(MXFP4, rows, columns, (part,))


def mxfp4_blocks(
    checkpoint: Checkpoint, name: str, shape: tuple[int, int, int], *, rows: slice = ALL
) -> Recipe:
    """gpt-oss's form: ``name`` + "_blocks" U8 [experts, rows, columns / 32, 16] and "_scales"; ``shape`` is
    the stored [experts, rows, columns], ``rows`` chooses some of each expert's."""
    experts, high, wide = shape
    groups = _blocks(checkpoint, name, MXFP4, wide)
    values, scales = name + "_blocks", name + "_scales"
    _require(checkpoint, values, (experts, high, groups, 16), ("U8",))
    _require(checkpoint, scales, (experts, high, groups), ("U8", "F8_E8M0"))
    down = range(high)[rows]

    def strided(source: str, width: int, expert: int) -> Strided:
        return Strided(source, (expert * high + down.start) * width, down.step * width)

    parts = tuple(
        Mxfp4Rows(len(down), strided(values, groups * 16, e), strided(scales, groups, e))
        for e in range(experts)
    )
    return Recipe(MXFP4, experts * len(down), wide, parts, experts)


def fp8(checkpoint: Checkpoint, name: str, rows: int, columns: int) -> Recipe:
    """``name`` F8_E4M3 [rows, columns] and ``name`` + "_scale_inv", one for each square of 128 x 128."""
    across = _blocks(checkpoint, name, FP8, columns)
    _require(checkpoint, name, (rows, columns), ("F8_E4M3",))
    _require(checkpoint, name + "_scale_inv", (-(-rows // SQUARE), across), _SCALES)
    part = GridRows(rows, Strided(name, 0, columns), Strided(name + "_scale_inv", 0, across))
    return Recipe(FP8, rows, columns, (part,))


# --- several tensors, and tensors that are several --------------------------------------------------


def stack(checkpoint: Checkpoint, names: Sequence[str], rows: int, columns: int) -> Recipe:
    """The experts ``names``, each a `matrix` [rows, columns], all in one form."""
    each = [matrix(checkpoint, name, rows, columns) for name in names]
    for name, recipe in zip(names, each, strict=True):
        if recipe.format is not each[0].format:
            first = f"{shown(names[0])} is {each[0].format.name}"
            raise UnsupportedModel(
                f"{checkpoint.file(name)}: tensor {shown(name)} is {recipe.format.name}, but {first}"
            )
    parts = tuple(part for recipe in each for part in recipe.parts)
    return Recipe(each[0].format, rows * len(each), columns, parts, len(each))


def fused_qkv(
    checkpoint: Checkpoint, name: str, chunks: int, sizes: tuple[int, int, int], columns: int
) -> tuple[Recipe, Recipe, Recipe]:
    """q, k and v out of a tensor of ``chunks`` runs of rows, each with its share of q, of k and of v:
    ``sizes`` rows. Stored as floats, or as FP8, whose grid of scales begins anew with each chunk."""
    chunk = sum(sizes)
    dtype = checkpoint.entry(name).dtype
    _require(checkpoint, name, (chunks * chunk, columns), (*PLAIN, "F8_E4M3"))
    format = PLAIN.get(dtype, FP8)
    across = _blocks(checkpoint, name, format, columns)
    grid, scales = -(-chunk // SQUARE), name + "_scale_inv"
    if format is FP8:
        _require(checkpoint, scales, (chunks * grid, across), _SCALES)

    def part(number: int, offset: int, rows: int) -> Part:
        source = Strided(name, (number * chunk + offset) * columns, columns)
        if format is not FP8:
            return PlainRows(rows, source)
        first = number * grid + offset // SQUARE
        return GridRows(rows, source, Strided(scales, first * across, across), offset % SQUARE)

    def recipe(offset: int, rows: int) -> Recipe:
        parts = tuple(part(number, offset, rows) for number in range(chunks))
        return Recipe(format, chunks * rows, columns, parts)

    q, k, v = sizes
    return recipe(0, q), recipe(q, k), recipe(q + k, v)


def fp8_kv(
    checkpoint: Checkpoint, names: tuple[str, str], heads: int, dims: tuple[int, int], columns: int
) -> tuple[Recipe, Recipe]:
    """k and v of FP8, ``dims`` rows for each of ``heads``, in MiMo-V2-Flash's two forms.

    Where the squares of scales do not end with a head of k, k and v of a head were quantised together, as
    the rows of one matrix: the last square of k has the first rows of v as well, so k's tensor of scales has
    theirs, and v's only those of the squares that begin in v.
    """
    (k, v), (high, wide) = names, dims
    across = _blocks(checkpoint, k, FP8, columns)
    _require(checkpoint, k, (heads * high, columns), ("F8_E4M3",))
    _require(checkpoint, v, (heads * wide, columns), ("F8_E4M3",))
    in_k = -(-high // SQUARE)
    in_v = -(-(high + wide) // SQUARE) - in_k
    if checkpoint.entry(k + "_scale_inv").shape == (-(-heads * high // SQUARE), across):
        return fp8(checkpoint, k, heads * high, columns), fp8(checkpoint, v, heads * wide, columns)
    _require(checkpoint, k + "_scale_inv", (heads * in_k, across), _SCALES)
    _require(checkpoint, v + "_scale_inv", (heads * in_v, across), _SCALES)
    shared = min(wide, in_k * SQUARE - high)

    def part(name: str, row: int, rows: int, scales: str, first: int) -> Part:
        grid = Strided(scales + "_scale_inv", first * across, across)
        return GridRows(rows, Strided(name, row * columns, columns), grid)

    k_parts = [part(k, h * high, high, k, h * in_k) for h in range(heads)]
    v_parts: list[Part] = []
    for h in range(heads):
        v_parts.append(part(v, h * wide, shared, k, (h + 1) * in_k - 1))
        v_parts.append(part(v, h * wide + shared, wide - shared, v, h * in_v))
    return (
        Recipe(FP8, heads * high, columns, tuple(k_parts)),
        Recipe(FP8, heads * wide, columns, tuple(p for p in v_parts if p.rows)),
    )


# --- checks -----------------------------------------------------------------------------------------

_SCALES = ("F32", "BF16")


def _require(checkpoint: Checkpoint, name: str, shape: Sequence[int], dtypes: Sequence[str]) -> None:
    entry = checkpoint.entry(name)
    if entry.shape != tuple(shape):
        raise ModelFileError(
            checkpoint.file(name), f"tensor {shown(name)} is {list(entry.shape)}, not {list(shape)}"
        )
    if entry.dtype not in dtypes:
        raise UnsupportedModel(
            f"{checkpoint.file(name)}: tensor {shown(name)} is {entry.dtype}; supported: {', '.join(dtypes)}"
        )


def _blocks(checkpoint: Checkpoint, name: str, format: Format, columns: int) -> int:
    """Blocks of a row."""
    if columns % format.block:
        raise UnsupportedModel(
            f"{checkpoint.file(name)}: tensor {shown(name)} has rows of {columns}, not a multiple of "
            f"the {format.block} in a block of {format.name}"
        )
    return columns // format.block
