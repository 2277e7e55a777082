"""Merging deltas: what both ends do with text that waits."""

from __future__ import annotations

from collections.abc import Iterable

from .messages import Delta, LogprobRow, ToolCall

_REASONING, _TEXT, _CALLS = range(3)


class Run:
    """Consecutive deltas of one sample that one message can say without changing their order."""

    def __init__(self, first: Delta) -> None:
        self._deltas = [first]
        self._last = _stages(first)[1]

    def add(self, delta: Delta) -> bool:
        """Take in the next delta. False if it has to begin a run of its own: reasoning after text, say."""
        first, last = _stages(delta)
        if first < self._last:
            return False
        self._deltas.append(delta)
        self._last = max(self._last, last)
        return True

    @property
    def sample(self) -> int:
        return self._deltas[0].sample

    def merged(self) -> Delta:
        """One delta that says all of it."""
        return merge_deltas(self._deltas)


def merge_deltas(deltas: list[Delta]) -> Delta:
    """One delta that says what ``deltas``, consecutive ones of one sample, say together."""
    first, last = deltas[0], deltas[-1]
    if first is last:
        return first
    tokens: list[int] | None = None
    logprobs: list[LogprobRow] | None = None
    if first.tokens is not None:
        tokens = [token for delta in deltas for token in delta.tokens or ()]
    if first.logprobs is not None:
        logprobs = [row for delta in deltas for row in delta.logprobs or ()]
    return Delta(
        id=first.id,
        seq=last.seq,
        sample=first.sample,
        offset=first.offset,
        text="".join([delta.text for delta in deltas]),
        count=sum(delta.count for delta in deltas),
        tokens=tokens,
        logprobs=logprobs,
        reasoning="".join([delta.reasoning for delta in deltas]),
        tool_calls=merge_calls(call for delta in deltas for call in delta.tool_calls),
    )


def merge_calls(pieces: Iterable[ToolCall]) -> list[ToolCall]:
    """One call, or piece of one, for each index: the first id and name, all arguments, the last error."""
    found: dict[int, list[ToolCall]] = {}
    for piece in pieces:
        found.setdefault(piece.index, []).append(piece)
    return [_joined(own) for own in found.values()]


def _joined(pieces: list[ToolCall]) -> ToolCall:
    if len(pieces) == 1:
        return pieces[0]
    return ToolCall(
        index=pieces[0].index,
        id=next((piece.id for piece in pieces if piece.id), ""),
        name=next((piece.name for piece in pieces if piece.name), ""),
        arguments="".join([piece.arguments for piece in pieces]),
        error=next((piece.error for piece in reversed(pieces) if piece.error), ""),
    )


def _stages(delta: Delta) -> tuple[int, int]:
    """The first and the last kind of thing that a delta says; nothing at all fits anywhere."""
    said = [
        stage
        for stage, part in ((_REASONING, delta.reasoning), (_TEXT, delta.text), (_CALLS, delta.tool_calls))
        if part
    ]
    return (said[0], said[-1]) if said else (_CALLS, _REASONING)
