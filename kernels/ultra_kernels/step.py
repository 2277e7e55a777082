"""What an executor is asked to do: one step, and how many rows and blocks it must have room for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .formats import Format
from .program import BLOCK
from .sampling import Draw

ENDED = -1
"""In place of a token: the stream ended in an earlier round."""

NOT_NUMBERS = -2
"""In place of a token: none could be drawn (`sampling.BadLogits`), the stream ends here."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A weight as its file has it: uint8 [rows, row_bytes] and the format of a row. Vectors have one row.

    Raises `ValueError` for data of another kind: executors make addresses of these numbers.
    """

    format: Format
    data: Tensor

    def __post_init__(self) -> None:
        data, size = self.data, self.format.block_bytes
        if data.dtype is not torch.uint8 or data.dim() != 2 or data.device.type != "cpu":
            raise ValueError(f"packed weights are uint8 [rows, bytes], not {data.dtype} {list(data.shape)}")
        if not data.numel() or data.shape[1] % size or not data.is_contiguous():
            raise ValueError(
                f"{list(data.shape)} bytes are not rows of whole {self.format.name} blocks of {size}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Unpacked shape (rows, columns)."""
        rows, row_bytes = self.data.shape
        return rows, row_bytes // self.format.block_bytes * self.format.block

    def load(self) -> Packed:
        """Itself: see `Weight`."""
        return self


class Weight(Protocol):
    """A weight, at hand (`Packed`) or still to be read: an executor asks for one after the other, and keeps
    none longer than it takes to put it where it belongs."""

    @property
    def format(self) -> Format: ...

    @property
    def shape(self) -> tuple[int, int]:
        """Unpacked shape (rows, columns)."""
        ...

    def load(self) -> Packed:
        """The data, of this format and shape; read anew by every call, if it is not at hand."""
        ...


def packed_bytes(weight: Weight) -> int:
    """Bytes of a weight when it is packed, known before it is read."""
    rows, columns = weight.shape
    return rows * weight.format.row_bytes(columns)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the symbolic dimensions of a program are at most."""

    rows: int
    """Rows of one step."""
    blocks: int
    """Physical KV blocks."""
    sequences: int = 1

    @property
    def positions(self) -> int:
        """Positions that the KV cache holds, all sequences together."""
        return self.blocks * BLOCK


@dataclass(frozen=True, slots=True)
class Step:
    """The inputs of one step, R rows: see `program` for their meaning.

    ``block_table`` is [sequences][blocks in use]; ``out_rows`` are the rows that want logits.
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    sequences: Sequence[int]
    block_table: Sequence[Sequence[int]]
    out_rows: Sequence[int]


@dataclass(frozen=True, slots=True)
class Stream:
    """A row that goes on from round to round: ``draw`` is how its next token is drawn.

    It ends with a token of ``ends``, which is its last, or after ``tokens`` of them.
    """

    draw: Draw
    ends: Collection[int] = ()
    tokens: int = 1


Heard = Callable[[Sequence[int]], bool]
"""Gets the tokens of one round, one for each stream; says whether to go on."""


class Stopped(Exception):
    """The step was abandoned because ``stop`` said so; the KV of its rows is undefined."""


class Executor(Protocol):
    """Runs the steps of one program. Not thread-safe: one thread owns it."""

    @property
    def batch_invariant(self) -> bool:
        """Whether a row's result is the same to the bit, whatever other rows its step has."""
        ...

    def run(self, step: Step, stop: Callable[[], bool] = lambda: False) -> Tensor:
        """One step; float32 logits [len(out_rows), vocabulary]. ``stop`` is polled between tasks and ends
        the step with `Stopped`."""
        ...

    def draw(self, logits: npt.NDArray[np.float32], how: Draw) -> int:
        """The token that `sampling.draw` takes from float32 logits [vocabulary]. Raises `BadLogits`."""
        ...

    def generate(
        self, step: Step, streams: Sequence[Stream], heard: Heard, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """``step``, then round after round until every stream has ended.

        ``streams`` are those of ``step.out_rows``, in their order. A round is one row for each stream that
        goes on: its last token, at the next position. ``heard`` gets the tokens of every round when it is
        done (`ENDED` and `NOT_NUMBERS` are none), and ends the call by False; an executor may have begun the
        next round by then, so KV after what was heard is undefined. ``stop`` is as in `run`.

        Streams of one token each may be any rows: the slots of a drafted block, each drawn for itself.

        Raises `ValueError` for streams that do not fit the step: more rounds than their blocks have room for,
        or one of several tokens that is not the last row of its sequence.
        """
        ...

    def close(self) -> None:
        """Let go of threads and memory; `run` must not be called any more."""
        ...
