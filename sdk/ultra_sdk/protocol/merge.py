"""Merging deltas: what both ends do with text that waits."""

from __future__ import annotations

from .messages import Delta, LogprobRow


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
    )
