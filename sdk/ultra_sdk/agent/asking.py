"""One question to the model: its answer as it comes, cut short where the rest would be of no use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ultra_sdk import Client, Stream
from ultra_sdk.protocol import ChatMessage, Delta, Prefill

from .bounds import circles
from .events import Reading, ReasoningDelta, Spent, TextDelta
from .parsing.calls import Call
from .turn import Emit

LOOK_CHARS = 400


@dataclass(slots=True)
class Said:
    """An answer, as far as it has come; filled while it comes, so that what is cut off is not lost."""

    pieces: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Why calls that the server found are none."""
    cut: bool = False
    """Whether it ended at its limit of tokens."""
    circling: bool = False
    """Whether it was stopped because it said the same again and again."""
    unread: int = 0
    """Characters since the text was looked at."""
    prompt_tokens: int = 0
    output_tokens: int = 0

    @property
    def text(self) -> str:
        """All of the text so far."""
        self.pieces = ["".join(self.pieces)]
        return self.pieces[0]


async def ask(
    engine: Client,
    messages: Sequence[ChatMessage],
    options: Mapping[str, Any],
    enough: Callable[[str], bool],
    emit: Emit,
    said: Said,
) -> None:
    """Fill ``said``. Raises `EngineError`."""
    async with engine.stream(messages=messages, **options) as stream:
        async for event in stream:
            if isinstance(event, Prefill):
                await emit(Reading(event.done, event.total))
            elif isinstance(event, Delta) and await _stopped(event, said, enough, emit):
                await stream.cancel()
                break
        await _sum_up(stream, said, emit)


async def _stopped(delta: Delta, said: Said, enough: Callable[[str], bool], emit: Emit) -> bool:
    """Take in what is new; whether nothing more is needed."""
    if delta.reasoning:
        await emit(ReasoningDelta(delta.reasoning, 0 if delta.text else delta.count))
    if not delta.text:
        return False
    said.pieces.append(delta.text)
    said.unread += len(delta.text)
    said.output_tokens += delta.count
    await emit(TextDelta(delta.text, delta.count))
    # All of the text is looked at: not for every word.
    if "\n" in delta.text or "`" in delta.text or said.unread > LOOK_CHARS:
        text, said.unread = said.text, 0
        said.circling = circles(text)
        return said.circling or enough(text)
    return False


async def _sum_up(stream: Stream, said: Said, emit: Emit) -> None:
    """Read on to the end, whatever still comes of a text that was cut, and tell the costs."""
    result = await stream.result()
    sample = result.samples[0]
    for call in sample.tool_calls:
        given = _arguments(call.arguments)
        said.calls.append(Call(call.name, given))
    said.broken += [call.error for call in sample.broken_calls]
    said.cut = result.finish == "length"
    said.prompt_tokens = result.usage.prompt_tokens
    said.output_tokens = result.usage.output_tokens
    await emit(
        Spent(
            result.usage.prompt_tokens,
            result.usage.cached_tokens,
            result.usage.output_tokens,
            round(result.tokens_per_second, 2),
            round(result.time_to_first_token, 3),
        )
    )


def _arguments(text: str) -> dict[str, Any] | str:
    try:
        value = msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, dict) else text
