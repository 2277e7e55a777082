"""From logits to a token: processors, and noise that is a pure function of (seed, position, token).

A token is drawn by Gumbel-max: argmax over the kept tokens of ``log p + gumbel``. The noise depends on
nothing but the key, so the same request gives the same text whatever else runs, and a drafted block can be
verified by drawing the target's own token at every slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from .request import SamplingParams

Floats = npt.NDArray[np.float64]

GREEDY_BELOW = 1e-3
"""Temperatures below this are greedy: there the distribution is one-hot up to ties of the logits."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's finaliser (Steele, Lea, Flood 2014): a bijection of 64-bit words that passes BigCrush."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def gumbel(seed: int, position: int, tokens: npt.NDArray[np.int64]) -> Floats:
    """Standard Gumbel noise of every token at one position, float64 [len(tokens)]."""
    key = _mix(np.array([seed], dtype=np.uint64) + _GOLDEN)
    key = _mix(key + np.array([position + 1], dtype=np.uint64) * _GOLDEN)
    bits = _mix(key + (tokens.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return -np.log(-np.log(uniform))


class Sampler:
    """Draws the tokens of one sample. It counts what it drew, for the penalties; `draw` is its one method.

    ``repetition_penalty`` (Keskar et al. 2019, section 4.1) looks at prompt and output, the OpenAI-style
    ``presence_penalty`` and ``frequency_penalty`` at the output alone.
    """

    def __init__(self, params: SamplingParams, seed: int, prompt: Sequence[int]) -> None:
        self._params, self._seed = params, seed
        self._seen: set[int] = set(prompt) if params.repetition_penalty != 1.0 else set()
        self._counts: dict[int, int] = {}

    def draw(self, logits: npt.NDArray[np.float32], position: int) -> int:
        """The token at ``position`` (of prompt and output together), from float32 logits [vocabulary].

        Raises `ArithmeticError` for logits that are not numbers: argmax would pick a token all the same.
        """
        if np.isnan(logits.max()):
            raise ArithmeticError("the model's logits are not numbers (NaN)")
        token = self._choose(self._process(logits.astype(np.float64)), position)
        self._counts[token] = self._counts.get(token, 0) + 1
        if self._params.repetition_penalty != 1.0:
            self._seen.add(token)
        return token

    def _process(self, logits: Floats) -> Floats:
        p = self._params
        if self._seen:
            seen = np.fromiter(self._seen, dtype=np.int64)
            at = logits[seen]
            logits[seen] = np.where(at > 0, at / p.repetition_penalty, at * p.repetition_penalty)
        if self._counts and (p.presence_penalty or p.frequency_penalty):
            tokens = np.fromiter(self._counts.keys(), dtype=np.int64)
            counts = np.fromiter(self._counts.values(), dtype=np.float64)
            logits[tokens] -= p.presence_penalty + p.frequency_penalty * counts
        _add(logits, p.logit_bias)
        return logits

    def _choose(self, logits: Floats, position: int) -> int:
        p = self._params
        if p.temperature < GREEDY_BELOW:
            return int(logits.argmax())
        tokens = np.flatnonzero(logits > -np.inf)
        scores = (logits[tokens] - logits.max()) / p.temperature
        kept = keep(scores, p.top_k, p.top_p, p.min_p)
        tokens, scores = tokens[kept], scores[kept]
        return int(tokens[(scores + gumbel(self._seed, position, tokens)).argmax()])


def _add(logits: Floats, bias: Mapping[int, float]) -> None:
    for token, value in bias.items():
        logits[token] += value


def keep(scores: Floats, top_k: int, top_p: float, min_p: float) -> npt.NDArray[np.int64]:
    """Indices that survive top-k, then top-p, then min-p; ``scores`` are log probabilities up to a constant.

    Every filter keeps at least the most likely token. Ties are broken by lower index, so that the outcome is
    a function of the logits alone.
    """
    if not top_k and top_p >= 1.0 and not min_p:
        return np.arange(len(scores))
    if top_k and top_k < len(scores):
        # A partial selection first: sorting 150,000 scores would cost more than the rest of the draw.
        edge = np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        candidates = np.flatnonzero(scores >= edge)
    else:
        candidates = np.arange(len(scores))
    order = candidates[np.argsort(-scores[candidates], kind="stable")][: top_k or None]
    p = np.exp(scores[order] - scores[order[0]])
    p /= p.sum()
    if top_p < 1.0:
        order = order[: max(1, int(np.searchsorted(np.cumsum(p), top_p)) + 1)]
    if min_p:
        order = order[p[: len(order)] >= min_p * p[0]]
    return order


def log_softmax(logits: npt.NDArray[np.float32]) -> Floats:
    """Log probabilities of the raw logits, float64 [vocabulary]."""
    wide = logits.astype(np.float64)
    wide -= wide.max()
    return np.asarray(wide - np.log(np.exp(wide).sum()))
