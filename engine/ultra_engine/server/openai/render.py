"""The engine's events as OpenAI's objects: one answer, or a chunk per delta."""

from __future__ import annotations

import json
import math
import time
from typing import Any

from ...request import CallPiece, Delta, Done, SampleDone, Stats, TokenLogprob
from .asked import Asked

_FINISH = {
    "stop": "stop",
    "length": "length",
    "cancelled": "stop",
    "error": "stop",
    "tool_calls": "tool_calls",
}


class Renderer:
    """Makes the objects of one answer; they share id, time and model."""

    def __init__(self, asked: Asked, model: str, request_id: str) -> None:
        self._asked = asked
        self._chat = asked.chat
        self._numbers: dict[int, dict[int, int]] = {}  # of the calls of each choice
        self._head = {
            "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{request_id}",
            "object": "",
            "created": int(time.time()),
            "model": model,
        }

    # --- whole --------------------------------------------------------------------------------------

    def answer(self, deltas: list[Delta], finishes: dict[int, str], done: Done) -> dict[str, Any]:
        """The answer as one object."""
        choices = []
        for index in range(self._asked.request.n):
            own = [delta for delta in deltas if delta.sample == index]
            if self._chat:
                body: dict[str, Any] = {"message": _message([self._said(delta) for delta in own])}
            else:
                body = {"text": "".join(delta.text for delta in own)}
            rows = [row for delta in own for row in delta.logprobs or ()]
            finish = _FINISH[finishes.get(index, done.finish)]
            choices.append(
                {"index": index, **body, "logprobs": self._logprobs(rows), "finish_reason": finish}
            )
        kind = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": kind, "choices": choices, "usage": usage(done.stats)}

    # --- in chunks ----------------------------------------------------------------------------------

    def opening(self) -> list[bytes]:
        """The chunks that open each choice; only chats have them."""
        if not self._chat:
            return []
        first = {"role": "assistant", "content": ""}
        return [self._chunk(index, {"delta": first}, None) for index in range(self._asked.request.n)]

    def delta(self, delta: Delta) -> bytes | None:
        """The chunk of a delta; None if it has nothing to show yet."""
        rows = list(delta.logprobs or ())
        said = self._said(delta)
        if not said and not (rows and self._asked.logprobs):
            return None
        body = {"delta": said or {"content": ""}} if self._chat else {"text": delta.text}
        return self._chunk(delta.sample, body, None, self._logprobs(rows))

    def sample_done(self, event: SampleDone) -> bytes:
        body: dict[str, Any] = {"delta": {}} if self._chat else {"text": ""}
        return self._chunk(event.sample, body, _FINISH[event.finish])

    def usage(self, stats: Stats) -> bytes | None:
        """The last chunk, without choices; only if it was asked for."""
        if not self._asked.include_usage:
            return None
        return event_line({**self._head, "object": self._chunk_kind, "choices": [], "usage": usage(stats)})

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self._chat else "text_completion"

    def _chunk(self, index: int, body: dict[str, Any], finish: str | None, logprobs: Any = None) -> bytes:
        choice = {"index": index, **body, "logprobs": logprobs, "finish_reason": finish}
        chunk = {**self._head, "object": self._chunk_kind, "choices": [choice]}
        if self._asked.include_usage:
            chunk["usage"] = None
        return event_line(chunk)

    def _said(self, delta: Delta) -> dict[str, Any]:
        """What a delta says, as the fields of a message."""
        said: dict[str, Any] = {}
        if delta.reasoning:
            said["reasoning_content"] = delta.reasoning
        # What was meant as a call and never began is text here: a client must see it somewhere.
        text = delta.text + "".join(call.arguments for call in delta.calls if call.error)
        if text:
            said["content"] = text
        if calls := [self._call(delta.sample, call) for call in delta.calls if not call.error]:
            said["tool_calls"] = calls
        return said

    def _call(self, sample: int, call: CallPiece) -> dict[str, Any]:
        """A piece of a call; clients want their numbers without gaps."""
        numbers = self._numbers.setdefault(sample, {})
        index = numbers.setdefault(call.index, len(numbers))
        piece: dict[str, Any] = {"index": index, "function": {"arguments": call.arguments}}
        if call.id:
            piece |= {"id": call.id, "type": "function"}
            piece["function"]["name"] = call.name
        return piece

    def _logprobs(self, rows: list[TokenLogprob]) -> dict[str, Any] | None:
        if not self._asked.logprobs:
            return None
        return {"content": [self._row(row) for row in rows], "refusal": None}

    def _row(self, row: TokenLogprob) -> dict[str, Any]:
        top = [_token(token, logprob) for token, _, logprob in row.top[: self._asked.top_logprobs]]
        return {**_token(row.token, row.logprob), "top_logprobs": top}


def _message(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """A whole message out of what its deltas say."""
    text = "".join(part.get("content", "") for part in parts)
    reasoning = "".join(part.get("reasoning_content", "") for part in parts)
    calls: dict[int, dict[str, Any]] = {}
    for piece in [piece for part in parts for piece in part.get("tool_calls", ())]:
        call = calls.setdefault(piece["index"], {"id": "", "type": "function", "function": {"arguments": ""}})
        call["id"] = call["id"] or piece.get("id", "")
        arguments = call["function"]["arguments"] + piece["function"]["arguments"]
        call["function"] = {**call["function"], **piece["function"], "arguments": arguments}
    message: dict[str, Any] = {"role": "assistant", "content": None if calls and not text else text}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(calls.values())
    return message


def _token(token: bytes, logprob: float) -> dict[str, Any]:
    finite = logprob if math.isfinite(logprob) else -9999.0
    return {"token": token.decode("utf-8", "replace"), "logprob": finite, "bytes": list(token)}


def usage(stats: Stats) -> dict[str, Any]:
    """Counts under OpenAI's names."""
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.output_tokens,
        "total_tokens": stats.prompt_tokens + stats.output_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.cached_tokens},
    }


def event_line(value: dict[str, Any]) -> bytes:
    """One server-sent event. JSON escapes line ends, so it is always one line."""
    return b"data: " + json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
