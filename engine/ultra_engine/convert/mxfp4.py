"""Floating-point weights -> MXFP4, in the layout of MiMo's checkpoints.

A group of 32 weights along the input dimension shares a power of two (E8M0, OCP Microscaling Formats 1.0,
5.4.1); a weight is ``e2m1 * 2^(scale - 127)`` with the magnitudes 0, .5, 1, 1.5, 2, 3, 4, 6. Quotients are
rounded to the nearest magnitude, ties to the even code; what is above 6 becomes 6.

Two ways to choose the power, with ``e = floor(log2(largest magnitude)) - 2``:

- ``max``: e (OCP 6.3). The largest quotient is in [4, 8), so a group's largest weight may lose a quarter.
- ``mse``: the power with the least squared error, of all 255. Only e - 1, e and e + 1 can have it: what e + 2
  has below 8 is among what e + 1 has, and e - 2 or less takes 2.5 or more from the largest weight, where e
  takes at most .25 from each of those that e - 2 could do better. Equal errors go to e.

Both give back exactly what was MXFP4 before. Every quotient, and every difference from its magnitude, is
exact in float32: dividing by a power of two loses bits only far below .25.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Scale = Literal["max", "mse"]

GROUP = 32
"""Weights that share a power of two."""

_STEP = 1 << 18
"""Weights that are worked on at a time: their intermediate results stay in the processor's caches."""

_TOP = 2
"""Exponent of the largest magnitude."""

_BIAS = 127


class NotFinite(ValueError):
    """A weight is NaN or infinite."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What rounding did to some weights: sums over them, and the largest difference. Losses add up."""

    weights: int = 0
    squares: float = 0.0
    """Of the weights."""
    errors: float = 0.0
    """Squares of the differences."""
    largest: float = 0.0

    def __add__(self, other: Loss) -> Loss:
        return Loss(
            self.weights + other.weights,
            self.squares + other.squares,
            self.errors + other.errors,
            max(self.largest, other.largest),
        )

    @property
    def relative_rms(self) -> float:
        """Root mean square of the differences over that of the weights; 0 where all weights are 0."""
        return float((self.errors / self.squares) ** 0.5) if self.squares else 0.0


@dataclass(frozen=True, slots=True)
class Encoded:
    """``weight`` uint8 [rows, columns / 2], byte j with column 2j in its low half; ``scale`` uint8 [rows,
    columns / 32]."""

    weight: Tensor
    scale: Tensor
    loss: Loss


def encode(weight: Tensor, scale: Scale = "mse", pool: Executor | None = None) -> Encoded:
    """A floating-point matrix [rows, columns] of at most 32 bits a weight in MXFP4. ``pool``: threads that
    share the rows; the result is the same to the bit.

    Raises `NotFinite`, and `ValueError` for columns that 32 does not divide.
    """
    assert weight.dim() == 2 and weight.is_floating_point() and weight.element_size() <= 4
    rows, columns = weight.shape
    if not columns or columns % GROUP:
        raise ValueError(f"MXFP4 has groups of {GROUP}, which does not divide {columns} columns")
    out = torch.empty(rows, columns // 2, dtype=torch.uint8)
    powers = torch.empty(rows, columns // GROUP, dtype=torch.uint8)

    def some(start: int) -> Loss:
        part = slice(start, start + step)
        groups = weight[part].float().reshape(-1, GROUP)
        codes, exponents, lost = _encode_groups(groups, scale)
        out[part] = (codes[:, 0::2] | codes[:, 1::2] << 4).reshape(-1, columns // 2)
        powers[part] = (exponents + _BIAS).to(torch.uint8).reshape(-1, columns // GROUP)
        return lost

    step = max(1, _STEP // columns)
    starts = range(0, rows, step)
    losses = pool.map(some, starts) if pool is not None else map(some, starts)
    return Encoded(out, powers, sum(losses, Loss()))


def _encode_groups(groups: Tensor, scale: Scale) -> tuple[Tensor, Tensor, Loss]:
    """float32 [n, 32] -> codes uint8 [n, 32], exponents int32 [n], what was lost."""
    magnitudes = groups.abs()
    largest = magnitudes.amax(dim=1)
    if not bool(torch.isfinite(largest).all()):
        raise NotFinite("a weight is NaN or infinite")
    # The field of a float32. Subnormal numbers need no care: they are far below the least power.
    base = ((largest.view(torch.int32) >> 23) - (_BIAS + _TOP)).clamp_(min=-_BIAS)
    group = _Groups(magnitudes.mul_(_power(-base)[:, None]))
    if scale == "mse":
        group.improve(lowest=base == -_BIAS)
    unit = _power(base).double()
    loss = Loss(
        groups.numel(),
        float(groups.double().square_().sum()),
        float((group.errors * unit.square()).sum()),
        float((group.furthest * unit).max()),
    )
    # The sign is that of the weight, also of one that became 0.
    return group.codes | torch.signbit(groups).to(torch.uint8) << 3, base + group.shifts, loss


class _Groups:
    """Groups in units of their ``max`` power, and what each is rounded to.

    ``quotients`` float32 [n, 32] in [0, 8); ``errors`` float64 [n], sums of squared differences; ``furthest``
    float32 [n], the largest difference; ``shifts`` int32 [n], what is added to the exponent.
    """

    def __init__(self, quotients: Tensor) -> None:
        self.quotients = quotients
        self.codes, self.errors, self.furthest = _rounded(quotients)
        self.shifts = torch.zeros(len(quotients), dtype=torch.int32)

    def improve(self, lowest: Tensor) -> None:
        """Take the next power above or below where its error is smaller; ``lowest`` [n] have none below."""
        largest = self.quotients.amax(dim=1)
        # Above is nothing that is not here but 8, and only what is above 7 is nearer to 8 than to 6. Below,
        # the largest becomes 3, which costs so much by itself.
        below = (largest.double() - 3).square_() < self.errors
        self._try(1, (largest > 7).nonzero().squeeze(1))
        self._try(-1, (below & ~lowest).nonzero().squeeze(1))

    def _try(self, shift: int, index: Tensor) -> None:
        if not len(index):
            return
        unit = 2.0**shift
        codes, errors, furthest = _rounded(self.quotients[index] / unit)
        errors *= unit * unit
        better = errors < self.errors[index]
        index = index[better]
        self.codes[index], self.errors[index] = codes[better], errors[better]
        self.furthest[index] = furthest[better] * unit
        self.shifts[index] = shift


def _power(exponents: Tensor) -> Tensor:
    """2^exponents in float32, for int32 from -127 to 127."""
    return torch.where(exponents == -127, 1 << 22, (exponents + _BIAS) << 23).view(torch.float32)


def _rounded(quotients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nearest magnitudes, ties to the even code: codes uint8 [n, 32], squared errors float64 [n], the
    largest difference float32 [n].

    From 1 on, the spacing of magnitudes doubles at each power of two. To add a number of which that spacing
    is the last bit rounds a float32 to it, and to subtract it again loses nothing.
    """
    values = quotients.clamp(max=6)
    last_bit = (values.view(torch.int32) & 0x7F800000).clamp_(min=0x3F800000).view(torch.float32)
    last_bit = last_bit * (1.5 * 2**22)
    values.add_(last_bit).sub_(last_bit)
    # From 1 on, a code is the exponent and the first bit of the fraction; .5 has code 1.
    codes = torch.maximum(
        (values.view(torch.int32) >> 22) - 2 * (_BIAS - 1), (values * 2).clamp_(max=1).int()
    )
    differences = values.sub_(quotients).abs_()
    return codes.to(torch.uint8), differences.double().square_().sum(dim=1), differences.amax(dim=1)
