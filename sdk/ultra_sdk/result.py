"""What a finished request amounts to."""

from __future__ import annotations

import msgspec

from .protocol import Finish, LogprobRow, Speculation, Timing, ToolCall, Usage


class Sample(msgspec.Struct, frozen=True):
    """One answer. ``tokens`` and ``logprobs`` are empty unless they were asked for.

    ``text`` is the answer alone. ``broken_calls`` were meant as calls and are none: the ``error`` of each
    tells the model why.
    """

    text: str
    finish: Finish
    token_count: int
    tokens: list[int] = []
    logprobs: list[LogprobRow] = []
    reasoning: str = ""
    tool_calls: list[ToolCall] = []
    broken_calls: list[ToolCall] = []

    @property
    def logprob(self) -> float:
        """Log probability of the whole answer; 0.0 unless logprobs were asked for."""
        return sum(row.logprob for row in self.logprobs)


class Result(msgspec.Struct, frozen=True):
    """A request that got its terminal message. Times in ``timing`` are milliseconds."""

    id: str
    samples: list[Sample]
    finish: Finish
    usage: Usage
    timing: Timing
    speculation: Speculation
    seed: int

    @property
    def text(self) -> str:
        """The text of the first sample."""
        return self.samples[0].text

    @property
    def reasoning(self) -> str:
        """The reasoning of the first sample."""
        return self.samples[0].reasoning

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls of the first sample."""
        return self.samples[0].tool_calls

    @property
    def tokens_per_second(self) -> float:
        """Tokens after the first of each sample, over the decoding time; 0.0 if there were none."""
        steps = self.usage.output_tokens - len(self.samples)
        return steps * 1000 / self.timing.decode_ms if steps > 0 and self.timing.decode_ms > 0 else 0.0

    @property
    def time_to_first_token(self) -> float:
        """Seconds from the request's arrival to its first token."""
        return self.timing.ttft_ms / 1000
