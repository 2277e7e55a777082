"""Rotary frequencies and their scalings, computed in float32 as transformers does: their last bit moves far
positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .config import Rope


@dataclass(frozen=True, slots=True)
class Scaling:
    """How frequencies are stretched. Fields that a kind does not use are ignored.

    kind: "default", "linear", "llama3" or "yarn".
    original: positions that the model was trained on before it was stretched (llama3, yarn).
    attention: YaRN's factor on cosine and sine; None is 0.1 ln(factor) + 1 (arXiv 2309.00071, eq. 22).
    """

    kind: str = "default"
    factor: float = 1.0
    original: float = 0.0
    low: float = 1.0
    high: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention: float | None = None
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    truncate: bool = True


def rope(
    dims: int,
    theta: float,
    scaling: Scaling = Scaling(),
    *,
    interleaved: bool = False,
    divisors: npt.NDArray[np.float32] | None = None,
) -> Rope:
    """The table of a head's first ``dims``; ``divisors`` [dims / 2] divide it, as GGUF files of Llama 3 have
    their scaling. Raises `KeyError` for a kind that is not in `KINDS`."""
    periods = theta ** (torch.arange(0, dims, 2, dtype=torch.int64).float() / dims)
    inv_freq = KINDS[scaling.kind](periods, dims, theta, scaling)
    if divisors is not None:
        inv_freq = inv_freq / torch.from_numpy(divisors.copy())
    factor = _attention_factor(scaling) if scaling.kind == "yarn" else 1.0
    return Rope(dims, cast("npt.NDArray[np.float32]", inv_freq.numpy()), interleaved, factor)


def _default(periods: Tensor, dims: int, theta: float, scaling: Scaling) -> Tensor:
    return 1.0 / periods


def _linear(periods: Tensor, dims: int, theta: float, scaling: Scaling) -> Tensor:
    return 1.0 / periods / scaling.factor


def _llama3(periods: Tensor, dims: int, theta: float, s: Scaling) -> Tensor:
    """Long waves are stretched, short ones are not, and those between are a mixture."""
    inv_freq = 1.0 / periods
    wavelength = 2 * math.pi / inv_freq
    longest, shortest = s.original / s.low, s.original / s.high
    stretched = torch.where(wavelength > longest, inv_freq / s.factor, inv_freq)
    smooth = (s.original / wavelength - s.low) / (s.high - s.low)
    between = ~(wavelength < shortest) * ~(wavelength > longest)
    mixed = (1 - smooth) * stretched / s.factor + smooth * stretched
    return torch.where(between, mixed, stretched)


def _yarn(periods: Tensor, dims: int, theta: float, s: Scaling) -> Tensor:
    """Dimensions that turn more than ``beta_fast`` times over the original context keep their frequency,
    those under ``beta_slow`` are stretched, with a ramp between (arXiv 2309.00071, section 3.2)."""

    def turning(times: float) -> float:
        """The dimension that turns so many times."""
        return (dims * math.log(s.original / (times * 2 * math.pi))) / (2 * math.log(theta))

    low, high = turning(s.beta_fast), turning(s.beta_slow)
    if s.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    ramp = ((torch.arange(dims // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    kept = 1 - ramp
    return 1.0 / (s.factor * periods) * (1 - kept) + 1.0 / periods * kept


KINDS: dict[str, Callable[[Tensor, int, float, Scaling], Tensor]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}


def _attention_factor(s: Scaling) -> float:
    def grown(weight: float) -> float:
        return 1.0 if s.factor <= 1 else 0.1 * weight * math.log(s.factor) + 1.0

    if s.attention is not None:
        return s.attention
    if s.mscale and s.mscale_all_dim:
        return grown(s.mscale) / grown(s.mscale_all_dim)
    return grown(1.0)
