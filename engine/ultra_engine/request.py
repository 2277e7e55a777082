"""What goes into the engine and what comes out: requests, sampling parameters, events.

The engine knows no websocket: the server turns wire messages into these and these into wire messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import RequestError

Finish = Literal["stop", "length", "cancelled", "error", "tool_calls"]

MAX_SEED = 2**64 - 1


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn; the defaults are greedy. See `validate` for the ranges."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def validate(self, vocab_size: int | None = None) -> None:
        """Raise `RequestError` naming the first field out of range; NaN is out of every range."""
        _number("temperature", self.temperature, 0, 100)
        _number("top_p", self.top_p, 0, 1, open_low=True)
        _integer("top_k", self.top_k, 0, 2**31 - 1)
        _number("min_p", self.min_p, 0, 1)
        if self.seed is not None:
            _integer("seed", self.seed, 0, MAX_SEED)
        _number("repetition_penalty", self.repetition_penalty, 0, 10, open_low=True)
        _number("presence_penalty", self.presence_penalty, -10, 10)
        _number("frequency_penalty", self.frequency_penalty, -10, 10)
        if len(self.stop) > 64:
            raise RequestError(f"stop: at most 64 strings, not {len(self.stop)}", "stop")
        for stop in self.stop:
            if not isinstance(stop, str) or not stop:
                raise RequestError("stop: every stop string must be non-empty text", "stop")
        for token, bias in self.logit_bias.items():
            _integer("logit_bias", token, 0, (vocab_size or 2**31) - 1)
            _number("logit_bias", bias, -1000, 1000)


def _number(name: str, value: object, low: float, high: float, open_low: bool = False) -> None:
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    # NaN compares false with everything, so it is in no interval.
    if not low <= number <= high or (open_low and number == low):
        interval = f"{'above' if open_low else 'from'} {low} to {high}"
        raise RequestError(f"{name} must be a number {interval}, not {value!r}", name)


def _integer(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise RequestError(f"{name} must be an integer from {low} to {high}, not {value!r}", name)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Exactly one of ``prompt`` (raw text), ``messages`` (chat) and ``tokens`` is given."""

    id: str
    prompt: str | None = None
    messages: Sequence[Mapping[str, Any]] | None = None
    tokens: Sequence[int] | None = None
    max_tokens: int | None = None
    sampling: SamplingParams = SamplingParams()
    n: int = 1
    logprobs: int = 0
    tools: Sequence[Mapping[str, Any]] = ()
    """With ``messages``: what the model may call, each with name, description and parameters."""
    reasoning: str = "auto"
    """One of the wire's `ReasoningEffort`."""


# --- events, in the order in which one request sees them ------------------------------------------


@dataclass(frozen=True, slots=True)
class Queued:
    position: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompt tokens processed so far (``done``), of ``total``; ``cached`` came from the last request's KV."""

    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    token: bytes
    id: int
    logprob: float
    top: tuple[tuple[bytes, int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class CallPiece:
    """More of a tool call: the first piece has id and name. ``error``: why it is none after all."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """Text that is safe to show: whole characters, and never a part of a stop string.

    ``reasoning`` came before ``text``, and that before ``calls``.
    """

    sample: int
    offset: int
    text: str
    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    reasoning: str = ""
    calls: tuple[CallPiece, ...] = ()


@dataclass(frozen=True, slots=True)
class SampleDone:
    sample: int
    finish: Finish


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts, and times in milliseconds, of one request."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    queue_ms: float = 0.0
    prefill_ms: float = 0.0
    ttft_ms: float = 0.0
    decode_ms: float = 0.0
    total_ms: float = 0.0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """Terminal: the request ran."""

    finish: Finish
    stats: Stats
    seed: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Terminal: the request could not run or go on. ``code`` is one of the wire's error codes."""

    code: str
    message: str
    param: str | None = None
    retryable: bool = False
    stats: Stats | None = None


Event = Queued | Prefill | Delta | SampleDone | Done | Failed
Sink = Callable[[Event], None]
"""Receives the events of one request, one at a time, on any thread; it must return at once and not raise."""
