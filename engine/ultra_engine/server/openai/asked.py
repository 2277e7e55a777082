"""What a body asks for, checked: the engine's request, and how the answer is to be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import RequestError
from ...face import EngineInfo
from ...request import MAX_SEED, Request, SamplingParams
from .errors import ApiError
from .fields import Fields
from .tools import read_effort, read_tools
from .turns import read_messages

MAX_TOP_LOGPROBS = 20
UNSUPPORTED = ("functions", "audio", "prediction", "suffix", "echo", "web_search_options")
"""Asking for one of these and not getting it would be a wrong answer, so it is refused."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One checked request. ``top_logprobs`` is how many alternatives to show for each token."""

    request: Request
    chat: bool
    stream: bool
    include_usage: bool
    logprobs: bool
    top_logprobs: int


def read_chat(fields: Fields, request_id: str, info: EngineInfo) -> Asked:
    """A body of ``/v1/chat/completions``. Raises `ApiError` naming the field."""
    logprobs = fields.flag("logprobs")
    top = fields.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if top is not None and not logprobs:
        raise fields.wrong("top_logprobs", "needs logprobs: true")
    # The engine counts the sampled token's row as asked for from one alternative on.
    wanted = max(1, top or 0) if logprobs else 0
    asked: dict[str, Any] = {"messages": read_messages(fields), "tools": read_tools(fields)}
    return _asked(fields, request_id, info, wanted, top or 0, reasoning=read_effort(fields), **asked)


def read_completion(fields: Fields, request_id: str, info: EngineInfo) -> Asked:
    """A body of ``/v1/completions``. Raises `ApiError` naming the field."""
    if fields.raw("logprobs"):
        raise fields.wrong("logprobs", "is not supported here: use /v1/chat/completions")
    if fields.raw("tools"):
        raise fields.wrong("tools", "is not supported here: use /v1/chat/completions")
    if fields.raw("best_of") not in (None, 1):
        raise fields.wrong("best_of", "is not supported: use n")
    prompt = fields.raw("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return _asked(fields, request_id, info, 0, 0, prompt=prompt)
    if _is_tokens(prompt, info.vocab_size):
        return _asked(fields, request_id, info, 0, 0, tokens=prompt)
    raise fields.wrong("prompt", "must be a non-empty text or list of token ids, and a single one")


def _is_tokens(prompt: Any, vocab_size: int) -> bool:
    if not isinstance(prompt, list) or not prompt:
        return False
    return all(type(token) is int and 0 <= token < vocab_size for token in prompt)


def _asked(
    fields: Fields, request_id: str, info: EngineInfo, logprobs: int, top_logprobs: int, **prompt: Any
) -> Asked:
    fields.string("model")
    for name in UNSUPPORTED:
        if fields.raw(name):
            raise fields.wrong(name, "is not supported by this server")
    form = fields.object("response_format").raw("type")
    if form not in (None, "text"):
        raise fields.wrong("response_format", "can only be of type text")
    stream = fields.flag("stream")
    options = fields.object("stream_options")
    if "stream_options" in fields and not stream:
        raise fields.wrong("stream_options", "needs stream: true")
    request = Request(
        id=request_id,
        max_tokens=_max_tokens(fields),
        sampling=_sampling(fields, info.vocab_size),
        n=fields.integer("n", 1, info.max_n) or 1,
        logprobs=logprobs,
        **prompt,
    )
    return Asked(
        request, "messages" in prompt, stream, options.flag("include_usage"), logprobs > 0, top_logprobs
    )


def _max_tokens(fields: Fields) -> int | None:
    old = fields.integer("max_tokens", 1, 2**31)
    new = fields.integer("max_completion_tokens", 1, 2**31)
    return new if new is not None else old


def _sampling(fields: Fields, vocab_size: int) -> SamplingParams:
    params = SamplingParams(
        temperature=fields.number("temperature", 1.0, 0, 100),
        top_p=fields.number("top_p", 1.0, 0, 1),
        top_k=fields.integer("top_k", 0, 2**31 - 1) or 0,
        min_p=fields.number("min_p", 0.0, 0, 1),
        seed=fields.integer("seed", 0, MAX_SEED),
        stop=_stop(fields),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 0, 10),
        presence_penalty=fields.number("presence_penalty", 0.0, -2, 2),
        frequency_penalty=fields.number("frequency_penalty", 0.0, -2, 2),
        logit_bias=_logit_bias(fields, vocab_size),
    )
    try:
        params.validate(vocab_size)
    except RequestError as error:
        raise ApiError(str(error), param=error.param) from None
    return params


def _stop(fields: Fields) -> tuple[str, ...]:
    value = fields.raw("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise fields.wrong("stop", "must be a non-empty string or a list of them")
    return tuple(stops)


def _logit_bias(fields: Fields, vocab_size: int) -> dict[int, float]:
    given = fields.object("logit_bias")
    bias: dict[int, float] = {}
    for key in fields.raw("logit_bias") or ():
        if not (key.isascii() and key.isdecimal() and len(key) < 12 and int(key) < vocab_size):
            raise fields.wrong("logit_bias", f"has a key that is no token id below {vocab_size}")
        bias[int(key)] = given.number(key, 0.0, -100, 100)
    return bias
