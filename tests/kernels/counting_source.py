"""Weights that are read when they are asked for, and that know how many of them are in memory."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from ultra_kernels.formats import Format
from ultra_kernels.step import Packed


@dataclass
class Counts:
    """``order``: names as they were loaded. ``most``: matrices that were alive at a time."""

    order: list[str] = field(default_factory=list)
    alive: list[weakref.ref[npt.NDArray[np.uint8]]] = field(default_factory=list)
    most: int = 0

    def loaded(self, name: str, memory: npt.NDArray[np.uint8]) -> None:
        self.order.append(name)
        if len(memory) > 1:
            self.alive.append(weakref.ref(memory))
        self.most = max(self.most, sum(ref() is not None for ref in self.alive))


@dataclass(frozen=True)
class Late:
    """One weight: every `load` makes new memory of it."""

    name: str
    source: Packed
    counts: Counts

    @property
    def format(self) -> Format:
        return self.source.format

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    def load(self) -> Packed:
        memory = self.source.data.numpy().copy()  # a tensor may die before its memory does, this does not
        self.counts.loaded(self.name, memory)
        return Packed(self.source.format, torch.from_numpy(memory))


def counted(weights: Mapping[str, Packed]) -> tuple[dict[str, Late], Counts]:
    counts = Counts()
    return {name: Late(name, packed, counts) for name, packed in weights.items()}, counts
