"""What is known of the running request, folded from its events: state, speed, context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from ultra_sdk.protocol import Delta, Done, Prefill, Queued

State = Literal[
    "starting",
    "ready",
    "offline",
    "waiting",
    "queued",
    "prefill",
    "streaming",
    "working",
    "asking",
    "done",
    "cancelled",
    "failed",
]
BUSY: frozenset[State] = frozenset({"waiting", "queued", "prefill", "streaming", "working", "asking"})
_LEAST_SECONDS = 0.1


@dataclass
class Meter:
    """Measures one request after another. Times are seconds; ``clock`` is replaced in tests."""

    clock: Callable[[], float] = field(default=monotonic, repr=False)
    state: State = "starting"
    note: str = ""
    """A word about the state, such as what the start of the engine is busy with."""
    position: int = 0
    """Requests ahead of ours in the queue."""
    progress: float = 0.0
    """The part of the prompt that is done, 0 to 1."""
    output_tokens: int = 0
    ttft: float | None = None
    """Time to first token: measured here until the engine's own figure arrives."""
    rate: float | None = None
    """Output tokens per second of decoding."""
    context_used: int = 0
    """Tokens of prompt and answer together, as last told by the engine."""
    context_total: int = 0

    _asked: float = 0.0
    _first: float = 0.0
    _first_count: int = 0
    _prompt_tokens: int = 0

    def ask(self) -> None:
        """A request is being sent."""
        self.state, self.note = "waiting", ""
        self._asked = self.clock()
        self.output_tokens = self.position = self._first_count = self._prompt_tokens = 0
        self.progress = 0.0
        self.ttft = self.rate = None

    def see(self, event: object) -> None:
        """Fold in an event of the stream."""
        match event:
            case Queued(position=position) if not self.output_tokens:
                self.state, self.position = "queued", position
            case Prefill(done=done, total=total) if not self.output_tokens:
                self.state, self.progress = "prefill", done / total if total else 1.0
                self._prompt_tokens = self.context_used = total
            case Delta(count=count):
                self._see_delta(count)
            case Done():
                self._see_done(event)

    def stop(self, state: State) -> None:
        """The request ended without the engine's figures; what was measured stays."""
        self.state = state

    def _see_delta(self, count: int) -> None:
        now = self.clock()
        if not self.output_tokens:
            self._first, self._first_count = now, count
            self.ttft = now - self._asked
        self.state = "streaming"
        self.output_tokens += count
        self.context_used = self._prompt_tokens + self.output_tokens
        if now - self._first >= _LEAST_SECONDS:
            self.rate = (self.output_tokens - self._first_count) / (now - self._first)

    def _see_done(self, done: Done) -> None:
        self.state = "cancelled" if done.finish == "cancelled" else "done"
        self.output_tokens = done.usage.output_tokens
        self.context_used = done.usage.prompt_tokens + done.usage.output_tokens
        if done.timing.ttft_ms > 0:
            self.ttft = done.timing.ttft_ms / 1000
        if done.timing.decode_ms > 0 and done.usage.output_tokens:
            self.rate = done.usage.output_tokens / (done.timing.decode_ms / 1000)


def seconds(value: float) -> str:
    """A time for people: ``0.21 s``, ``3.4 s``, ``2 min 5 s``."""
    if value < 1:
        return f"{value:.2f} s"
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60} s"


def per_second(value: float) -> str:
    """A speed for people: ``8.31 tok/s``, ``38.4 tok/s``, ``1,204 tok/s``."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} tok/s"
