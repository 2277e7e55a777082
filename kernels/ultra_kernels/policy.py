"""How many drafts are worth verifying: the most expected tokens for the time that a step takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .drafting import Offer

FIRST_SLOPE, SLOPE, FLAT_ROWS = 0.14, 0.29, 4
"""A step of r rows before any was timed, in steps of one row: that one reads the weights, so that some more
rows are nearly free, and then each costs its arithmetic. Measured on the CPU machine (README)."""

NEW = 0.25
"""Weight of a new time beside the older ones."""


@dataclass(slots=True)
class StepTimes:
    """Seconds of a step of r rows, r from 1 to the most: measured, 0 where none was. ``fixed`` times stay."""

    seconds: npt.NDArray[np.float64]
    fixed: bool = False
    _guess: npt.NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self._guess = np.array([0.0, *(guess(rows) for rows in range(1, len(self.seconds)))])

    @classmethod
    def empty(cls, rows: int) -> StepTimes:
        return cls(np.zeros(rows + 1))

    def note(self, rows: int, seconds: float) -> None:
        """A step of ``rows`` rows took ``seconds``. One that was disturbed counts twice the usual at most."""
        if self.fixed:
            return
        old = self.seconds[rows]
        self.seconds[rows] = old + NEW * (min(seconds, 2 * old) - old) if old else seconds

    def of(self, rows: int) -> float:
        """Seconds of a step of so many rows, from the nearest number of rows that was timed."""
        for distance in range(len(self.seconds)):
            for near in (rows - distance, rows + distance):
                if 0 < near < len(self.seconds) and self.seconds[near]:
                    return float(self.seconds[near] * (self._guess[rows] / self._guess[near]))
        return float(self._guess[rows])


def guess(rows: int) -> float:
    """The time of a step of ``rows`` rows before any was measured; one row is 1."""
    flat = min(rows, FLAT_ROWS)
    return 1.0 + FIRST_SLOPE * (flat - 1) + SLOPE * (rows - flat)


def plan(offers: Sequence[Offer], times: StepTimes, rows: int) -> list[int]:
    """How many tokens of each offer go into the next step, which has one row for each of them besides and
    ``rows`` at most.

    Drafts are taken by their chance of being reached and right, best first (of equal ones that of the first
    stream); of all such beginnings the one counts that gives the most expected tokens per second.
    """
    counts = [0] * len(offers)
    best, value = list(counts), float(len(offers))
    chances = [offer.chance for offer in offers]
    rate = value / times.of(len(offers))
    for taken in range(len(offers) + 1, rows + 1):
        open_ = [i for i, offer in enumerate(offers) if counts[i] < len(offer.tokens)]
        if not open_:
            break
        stream = max(open_, key=lambda i: chances[i])
        value += chances[stream]
        chances[stream] *= offers[stream].chance
        counts[stream] += 1
        if value / times.of(taken) > rate:
            best, rate = list(counts), value / times.of(taken)
    return best
