"""What has arrived for one request and has not been read yet.

Deltas that wait are merged per sample, so a slow reader gets fewer and bigger ones, and never holds up the
connection or its neighbours. Messages are checked here: ``seq`` without gaps, ``offset`` without gaps.
"""

from __future__ import annotations

import asyncio
from collections import deque

from .errors import EngineError, ProtocolError
from .events import Arrival
from .protocol import Delta, Done, Failed, Run


class Mailbox:
    """Filled by the connection's reader task, emptied by one stream."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.ended = False
        """A terminal message or a failure has arrived (it may still be unread)."""
        self._queue: deque[Arrival | Run] = deque()
        self._runs: dict[int, Run] = {}  # per sample, the run in _queue that may still grow
        self._offsets: dict[int, int] = {}
        self._seq = 0
        self._failure: EngineError | None = None
        self._arrived = asyncio.Event()

    def put(self, message: Arrival) -> None:
        """Take in the next message of this request; a broken sequence ends it with `ProtocolError`."""
        if self.ended:
            return
        if message.seq != self._seq + 1:
            self.fail(
                ProtocolError(f"request {self.request_id}: message {message.seq} came after {self._seq}")
            )
            return
        self._seq = message.seq
        if isinstance(message, Delta):
            self._put_delta(message)
        else:
            self._runs.clear()
            self._queue.append(message)
            self.ended = isinstance(message, (Done, Failed))
        self._arrived.set()

    def _put_delta(self, delta: Delta) -> None:
        expected = self._offsets.get(delta.sample, 0)
        if delta.offset != expected:
            self.fail(
                ProtocolError(
                    f"request {self.request_id}: token {delta.offset} of sample {delta.sample} "
                    f"came where {expected} was due"
                )
            )
            return
        self._offsets[delta.sample] = expected + delta.count
        run = self._runs.get(delta.sample)
        if run is None or not run.add(delta):
            run = self._runs[delta.sample] = Run(delta)
            self._queue.append(run)

    def fail(self, error: EngineError) -> None:
        """Nothing more will come: after what has arrived, ``error`` is raised."""
        if not self.ended:
            self.ended = True
            self._failure = error
            self._arrived.set()

    def ready(self) -> bool:
        return bool(self._queue) or self.ended

    async def wait(self) -> None:
        """Return once `pop` has something to say. Takes nothing, so cancelling it loses nothing."""
        while not self.ready():
            self._arrived.clear()
            await self._arrived.wait()

    def pop(self) -> Arrival | None:
        """The next message, waiting deltas of a sample merged into one; None after the terminal one.

        Raises what ended the request early, once everything that had arrived is read.
        """
        assert self.ready(), "wait() first"
        if not self._queue:
            if self._failure is not None:
                raise self._failure
            return None
        item = self._queue.popleft()
        if not isinstance(item, Run):
            return item
        if self._runs.get(item.sample) is item:
            del self._runs[item.sample]
        return item.merged()
