"""What a `Stream` yields: the wire's own messages, and `Unknown` for those of a newer server."""

from __future__ import annotations

import msgspec

from .protocol import Delta, Done, Failed, Prefill, Queued, SampleDone


class Unknown(msgspec.Struct, frozen=True):
    """A message of a type that this version does not know; ``raw`` is its JSON."""

    type: str
    id: str
    seq: int
    raw: bytes


Event = Queued | Prefill | Delta | SampleDone | Done | Unknown
"""What iteration yields; a `Failed` becomes an exception instead."""

Arrival = Event | Failed
