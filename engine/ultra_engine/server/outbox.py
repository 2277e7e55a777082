"""What one connection still has to send.

Everything queued since the last flush goes out together, deltas of one sample merged into one: never on a
timer, so an idle line adds no latency, and a slow one gets bigger deltas instead of a longer queue.
What waits is bounded by the tokens of the running requests.
"""

from __future__ import annotations

from collections import deque

import msgspec
from ultra_sdk.protocol import (
    Delta,
    Done,
    Failed,
    Fault,
    Goaway,
    Hello,
    Pong,
    Prefill,
    Queued,
    Run,
    ServerMessage,
)

_encode = msgspec.json.Encoder().encode


class Outbox:
    """Messages in, numbered JSON out. Numbers are given at the flush, so merging leaves no gaps."""

    def __init__(self) -> None:
        self._queue: deque[ServerMessage | Run | _Status] = deque()
        self._runs: dict[tuple[str, int], Run] = {}  # those in _queue that may still grow
        self._statuses: dict[str, _Status] = {}  # queued or prefill in _queue that may still change
        self._seq: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, message: ServerMessage) -> None:
        """Queue a message; its ``seq``, if it has one, is set when it is sent."""
        if isinstance(message, Delta):
            self._put_delta(message)
        elif isinstance(message, (Queued, Prefill)):
            self._put_status(message)
        else:
            self._queue.append(message)

    def flush(self) -> list[bytes]:
        """Everything that waits, encoded, in order."""
        queue, self._queue = self._queue, deque()
        self._runs.clear()
        self._statuses.clear()
        return [_encode(self._number(item)) for item in queue]

    def _put_delta(self, delta: Delta) -> None:
        key = delta.id, delta.sample
        run = self._runs.get(key)
        if run is None or not run.add(delta):
            run = self._runs[key] = Run(delta)
            self._queue.append(run)

    def _put_status(self, message: Queued | Prefill) -> None:
        waiting = self._statuses.get(message.id)
        if waiting is not None:
            waiting.latest = message  # only the newest position or progress is worth sending
            return
        status = self._statuses[message.id] = _Status(message)
        self._queue.append(status)

    def _number(self, item: ServerMessage | Run | _Status) -> ServerMessage:
        message: ServerMessage
        if isinstance(item, Run):
            message = item.merged()
        elif isinstance(item, _Status):
            message = item.latest
        else:
            message = item
        if isinstance(message, (Hello, Fault, Goaway, Pong)):
            return message
        seq = self._seq.get(message.id, 0) + 1
        if isinstance(message, (Done, Failed)):
            self._seq.pop(message.id, None)
        else:
            self._seq[message.id] = seq
        return msgspec.structs.replace(message, seq=seq)


class _Status:
    def __init__(self, latest: Queued | Prefill) -> None:
        self.latest = latest
