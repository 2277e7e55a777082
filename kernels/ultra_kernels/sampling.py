"""From logits to a token: what the op SAMPLE means.

The token is a pure function of the logits and of a `Draw`. It is drawn by Gumbel-max: the kept token of the
largest ``score + noise``, where the noise depends on (seed, position, token) and on nothing else. So a
request gives the same text whatever else runs, and a drafted block is verified by drawing the target's own
token at every slot. Everything is float64; of equal tokens the one of lower index wins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

GREEDY_BELOW = 1e-3
"""Temperatures below this are greedy: there the distribution is one-hot up to ties of the logits."""

MASS_ONE = 2.0**43
"""Probability is counted in whole numbers, this many for the likeliest token: their sums are exact in any
order, so that the tokens which top-p keeps do not depend on how the work was cut."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STEPS = 64
_POWERS = np.exp2(np.arange(_STEPS) / _STEPS)


class BadLogits(ArithmeticError):
    """No token can be drawn from these logits: argmax would name one all the same."""

    def __init__(self) -> None:
        super().__init__("the model's logits are not numbers (NaN, or infinite)")


@dataclass(frozen=True, slots=True)
class Draw:
    """How one token is drawn; the defaults are greedy.

    ``position`` is the token's own, of prompt and output together. ``repetition_penalty`` (Keskar et al.
    2019, section 4.1) looks at prompt and output, the OpenAI-style ``presence_penalty`` and
    ``frequency_penalty`` at the output alone; then ``logit_bias`` is added. Filters apply in the order top-k,
    top-p, min-p; 0, 1 and 0 switch them off.
    """

    seed: int = 0
    position: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()

    @property
    def counts_output(self) -> bool:
        """Whether the draw depends on what was drawn before."""
        return bool(self.repetition_penalty != 1.0 or self.presence_penalty or self.frequency_penalty)


def draw(logits: npt.NDArray[np.float32], how: Draw) -> int:
    """The token that ``how`` takes from float32 logits [vocabulary]. Raises `BadLogits`."""
    if np.isnan(logits.max()):
        raise BadLogits
    scores = process(logits, how)
    top = scores.max()
    if not np.isfinite(top):
        raise BadLogits
    if how.temperature < GREEDY_BELOW:
        return int(scores.argmax())
    tokens = np.flatnonzero(scores > -np.inf)
    scores = (scores[tokens] - top) / how.temperature
    kept = keep(scores, how.top_k, how.top_p, how.min_p)
    tokens, scores = tokens[kept], scores[kept]
    return int(tokens[(scores + gumbel(how.seed, how.position, tokens)).argmax()])


def process(logits: npt.NDArray[np.float32], how: Draw) -> Floats:
    """Penalties and bias applied: float64 [vocabulary]."""
    wide = logits.astype(np.float64)
    if how.repetition_penalty != 1.0:
        seen = np.unique(np.array([*how.prompt, *how.output], dtype=np.int64))
        at = wide[seen]
        wide[seen] = np.where(at > 0, at / how.repetition_penalty, at * how.repetition_penalty)
    if how.presence_penalty or how.frequency_penalty:
        tokens, counts = np.unique(np.array(how.output, dtype=np.int64), return_counts=True)
        wide[tokens] -= how.presence_penalty + how.frequency_penalty * counts
    for token, value in how.logit_bias.items():
        wide[token] += value
    return wide


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection of 64-bit words that passes BigCrush."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def gumbel(seed: int, position: int, tokens: Indices) -> Floats:
    """Standard Gumbel noise of every token at one position, float64 [len(tokens)]."""
    key = _mix(np.array([seed], dtype=np.uint64) + _GOLDEN)
    key = _mix(key + np.array([position + 1], dtype=np.uint64) * _GOLDEN)
    bits = _mix(key + (tokens.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return -np.log(-np.log(uniform))


def mass(scores: Floats) -> npt.NDArray[np.uint64]:
    """exp(score) of scores <= 0 in units of 1 / `MASS_ONE`: a power of two from a table, and a short series.

    Plain float64 steps in this order, so that another executor's numbers are the same ones.
    """
    steps = np.maximum(scores, -32.0) * (_STEPS / math.log(2))
    whole = (steps - 0.5).astype(np.int64)
    r = (steps - whole) * (math.log(2) / _STEPS)
    series = 1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24))))
    units = (_POWERS[whole & (_STEPS - 1)] * series * MASS_ONE).astype(np.uint64)
    return np.asarray(units >> (-(whole >> 6)).astype(np.uint64))


def keep(scores: Floats, top_k: int, top_p: float, min_p: float) -> Indices:
    """Indices, ascending, that survive top-k, then top-p, then min-p. ``scores`` are log probabilities less
    that of the likeliest, which is kept always.

    top-p keeps the shortest run of likeliest tokens whose mass is that part of what top-k left; min-p keeps
    what is at least so many times as likely as the likeliest.
    """
    if not top_k and top_p >= 1.0 and not min_p:
        return np.arange(len(scores))
    order = _likeliest(scores, top_k) if top_k or top_p < 1.0 else np.arange(len(scores))
    if top_p < 1.0:
        sums = np.cumsum(mass(scores[order]))
        need = min(sums[-1], np.uint64(top_p * float(sums[-1])))
        order = order[: int(np.searchsorted(sums, need)) + 1]
    if min_p:
        order = order[scores[order] >= math.log(min_p)]
    return np.sort(order)


def _likeliest(scores: Floats, top_k: int) -> Indices:
    """The best ``top_k`` (0: all) in order."""
    candidates = np.arange(len(scores))
    if 0 < top_k < len(scores):
        # A partial selection first: sorting 150,000 scores would cost more than the rest of the draw.
        edge = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        candidates = np.flatnonzero(scores >= edge)
    return candidates[np.argsort(-scores[candidates], kind="stable")][: top_k or None]


def log_softmax(logits: npt.NDArray[np.float32]) -> Floats:
    """Log probabilities of the raw logits, float64 [vocabulary]."""
    wide = logits.astype(np.float64)
    wide -= wide.max()
    return np.asarray(wide - np.log(np.exp(wide).sum()))
