"""Streams as the library has them, and the log that it writes of their rounds."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..drafting import GAP, Drafting
from ..sampling import Draw
from ..step import Heard, Stream, Took
from . import abi

TOUCHED = np.dtype(
    [("token", np.int32), ("count", np.int32), ("seen", np.int32), ("", np.int32), ("bias", np.float64)]
)
"""A token whose logit is changed before the draw: how often it was put out, whether it was seen at all."""


class Streams:
    """The records of one call, with the memory that they point to, and the tokens that come of it."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._keep: list[object] = []
        self._count = len(streams)
        self.records = (abi.StreamRecord * self._count)(*map(self._record, streams))
        rounds = max(stream.tokens for stream in streams)
        self._words = np.empty(
            2 * rounds * self._count + sum(stream.tokens for stream in streams), dtype=np.int32
        )
        self._done = ctypes.c_int32(0)
        self.log = abi.LogRecord(self._words.ctypes.data, ctypes.addressof(self._done))
        self._heard = self._read = 0

    def _record(self, stream: Stream) -> abi.StreamRecord:
        draw, changed = draw_record(stream.draw)
        ends = np.array(sorted(stream.ends), dtype=np.int32)
        self._keep += (changed, ends)
        return abi.StreamRecord(
            *(draw, self._drafting(stream.drafting), ends.ctypes.data, len(ends), stream.tokens),
            *(stream.draw.counts_output, stream.drafting is not None),
        )

    def _drafting(self, drafting: Drafting | None) -> abi.DraftingRecord:
        if drafting is None:
            return abi.DraftingRecord()
        others = [np.array([*text, GAP], dtype=np.int32) for text in drafting.corpus]
        texts = np.concatenate([*others, np.array(drafting.history, dtype=np.int32)])
        self._keep.append(texts)
        return abi.DraftingRecord(texts.ctypes.data, len(texts), drafting.most)

    def hear(self, heard: Heard) -> bool:
        """Tell of the rounds that are done and were not told of; False as soon as ``heard`` says so."""
        while self._heard < self._done.value:
            self._heard += 1
            if not heard([self._took() for _ in range(self._count)]):
                return False
        return True

    def _took(self) -> Took:
        drafted, count = self._words[self._read : self._read + 2].tolist()
        first = self._read + 2
        self._read = first + count
        return Took(self._words[first : self._read].tolist(), drafted)


def draw_record(how: Draw) -> tuple[abi.DrawRecord, npt.NDArray[np.void]]:
    """The record of ``how``, and an array that has to live as long as it."""
    changed = touched(how)
    record = abi.DrawRecord(
        *(how.seed, how.position, how.temperature, how.top_p, how.min_p),
        *(how.repetition_penalty, how.presence_penalty, how.frequency_penalty),
        *(how.top_k, len(changed), changed.ctypes.data),
    )
    return record, changed


def touched(how: Draw) -> npt.NDArray[np.void]:
    """`TOUCHED` records of the tokens that ``how`` treats apart, ascending."""
    remembered = how.output if how.counts_output else ()
    seen = (*how.prompt, *remembered) if how.repetition_penalty != 1.0 else remembered
    if not seen and not how.logit_bias:
        return np.empty(0, dtype=TOUCHED)
    table = np.unique(np.array([*seen, *how.logit_bias], dtype=np.int32))
    records = np.zeros(len(table), dtype=TOUCHED)
    records["token"] = table
    records["seen"][np.searchsorted(table, np.array(seen, dtype=np.int32))] = 1
    np.add.at(records["count"], np.searchsorted(table, np.array(remembered, dtype=np.int32)), 1)
    for token, bias in how.logit_bias.items():
        records["bias"][np.searchsorted(table, token)] = bias
    return records
