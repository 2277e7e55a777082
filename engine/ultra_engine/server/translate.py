"""Between the wire's messages and the engine's requests and events."""

from __future__ import annotations

import math
import re
from typing import Any, cast, get_args

import msgspec
import ultra_sdk.protocol as wire

from .. import request as engine
from ..errors import RequestError
from ..face import EngineInfo

MAX_LOGPROBS = 20
_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_CODES = frozenset(get_args(wire.ErrorCode))


def to_request(create: wire.Create, engine_id: str, info: EngineInfo) -> engine.Request:
    """The engine's request for a `Create`. Raises `RequestError` for what can be told without the model."""
    _check_prompt(create, info)
    _integer("n", create.n, 1, info.max_n)
    _integer("logprobs", create.logprobs, 0, MAX_LOGPROBS)
    if create.max_tokens is not None and create.max_tokens < 1:
        raise RequestError(f"max_tokens must be at least 1, not {create.max_tokens}", "max_tokens")
    if create.on_disconnect != "cancel":
        raise RequestError("on_disconnect: this server only knows 'cancel'", "on_disconnect")
    return engine.Request(
        id=engine_id,
        prompt=create.prompt,
        messages=_messages(create.messages),
        tokens=create.tokens,
        max_tokens=create.max_tokens,
        sampling=_sampling(create.sampling, info.vocab_size),
        n=create.n,
        logprobs=create.logprobs,
        tools=_tools(create),
        reasoning=create.reasoning,
    )


def _check_prompt(create: wire.Create, info: EngineInfo) -> None:
    given = [name for name in ("prompt", "messages", "tokens") if getattr(create, name) is not None]
    if len(given) != 1:
        what = " and ".join(given) if given else "none of them"
        raise RequestError(f"give exactly one of prompt, messages and tokens; there is {what}", "prompt")
    if not getattr(create, given[0]):
        raise RequestError(f"{given[0]} is empty: there is nothing to answer", given[0])
    if create.tokens is not None:
        wrong = next((token for token in create.tokens if not 0 <= token < info.vocab_size), None)
        if wrong is not None:
            raise RequestError(f"tokens: {wrong} is not in the vocabulary of {info.vocab_size}", "tokens")


def _messages(messages: list[wire.ChatMessage] | None) -> list[dict[str, Any]] | None:
    return None if messages is None else [msgspec.to_builtins(message) for message in messages]


def _tools(create: wire.Create) -> tuple[dict[str, Any], ...]:
    """The tools that may be called, checked."""
    if create.tools and create.messages is None:
        raise RequestError("tools go with messages, not with a raw prompt", "tools")
    names = [tool.name for tool in create.tools]
    for name in names:
        if not _NAME.fullmatch(name):
            raise RequestError(f"tools: {name[:80]!r} is not a name of letters, digits and _.-", "tools")
        if names.count(name) > 1:
            raise RequestError(f"tools: there are two with the name {name}", "tools")
    return () if create.tool_choice == "none" else tuple(_spec(tool) for tool in create.tools)


def _spec(tool: wire.ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _sampling(sampling: wire.Sampling, vocab_size: int) -> engine.SamplingParams:
    values = {name: getattr(sampling, name) for name in sampling.__struct_fields__}
    values["stop"] = tuple(sampling.stop)
    values["logit_bias"] = {_token(key): bias for key, bias in sampling.logit_bias.items()}
    params = engine.SamplingParams(**values)
    params.validate(vocab_size)
    return params


def _token(key: str) -> int:
    # isdecimal alone would let through digits of other scripts, and lengths that int() refuses.
    if not (key.isascii() and key.isdecimal() and len(key) < 12):
        raise RequestError(f"logit_bias: {key[:40]!r} is not a token id", "logit_bias")
    return int(key)


def _integer(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise RequestError(f"{name} must be from {low} to {high}, not {value}", name)


def to_message(event: engine.Event, create_id: str, return_tokens: bool) -> wire.ServerMessage:
    """The wire's message for an engine's event; ``seq`` is left to the outbox."""
    match event:
        case engine.Queued(position):
            return wire.Queued(create_id, 0, position)
        case engine.Prefill(done, total, cached):
            return wire.Prefill(create_id, 0, done, total, cached)
        case engine.Delta():
            return _delta(event, create_id, return_tokens)
        case engine.SampleDone(sample, finish):
            return wire.SampleDone(create_id, 0, finish, sample)
        case engine.Done(finish, stats, seed):
            return wire.Done(
                create_id, 0, finish, _usage(stats), _timing(stats), wire.Speculation(steps=stats.steps), seed
            )
        case engine.Failed(code, message, param, retryable, stats):
            error = wire.Error(to_code(code), message, retryable, param=param)
            return wire.Failed(create_id, 0, error, _usage(stats) if stats is not None else None)


def to_code(code: str) -> wire.ErrorCode:
    """An error code that is on the wire's closed list."""
    return cast(wire.ErrorCode, code) if code in _CODES else "engine_failed"


def _delta(event: engine.Delta, create_id: str, return_tokens: bool) -> wire.Delta:
    return wire.Delta(
        id=create_id,
        seq=0,
        sample=event.sample,
        offset=event.offset,
        text=event.text,
        count=len(event.tokens),
        tokens=list(event.tokens) if return_tokens else None,
        logprobs=None if event.logprobs is None else [_row(row) for row in event.logprobs],
        reasoning=event.reasoning,
        tool_calls=[
            wire.ToolCall(call.index, call.id, call.name, call.arguments, call.error) for call in event.calls
        ],
    )


def says_nothing(delta: wire.Delta) -> bool:
    """Whether a delta need not be sent."""
    return not (delta.count or delta.text or delta.reasoning or delta.tool_calls)


def _row(row: engine.TokenLogprob) -> wire.LogprobRow:
    top = [(_text(token), token_id, _finite(logprob)) for token, token_id, logprob in row.top]
    return wire.LogprobRow(_text(row.token), row.id, _finite(row.logprob), top)


def _text(token: bytes) -> str:
    return token.decode("utf-8", "replace")


def _finite(logprob: float) -> float:
    """JSON has no infinity; a token that a bias forbids has log probability minus infinity."""
    return logprob if math.isfinite(logprob) else -9999.0


def _usage(stats: engine.Stats) -> wire.Usage:
    return wire.Usage(stats.prompt_tokens, stats.cached_tokens, stats.output_tokens)


def _timing(stats: engine.Stats) -> wire.Timing:
    return wire.Timing(
        queue_ms=stats.queue_ms,
        prefill_ms=stats.prefill_ms,
        ttft_ms=stats.ttft_ms,
        decode_ms=stats.decode_ms,
        total_ms=stats.total_ms,
    )
