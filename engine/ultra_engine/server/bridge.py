"""Between the event loop and the engine's worker thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ..face import EngineFace, EngineInfo
from ..request import Done, Event, Failed, Request

Receiver = Callable[[Event], None]


class Bridge:
    """Hands requests to the engine and brings their events to the loop, many per wake-up if many wait."""

    def __init__(self, engine: EngineFace) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[tuple[str, Event]] = deque()
        self._waking = False
        self._receivers: dict[str, Receiver] = {}
        self.idle = asyncio.Event()
        """Set while no request runs."""
        self.idle.set()

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    def submit(self, request: Request, receiver: Receiver) -> None:
        """Start a request; ``receiver`` gets its events, on the loop, the last one terminal."""
        assert request.id not in self._receivers, f"{request.id} is running"
        self._receivers[request.id] = receiver
        self.idle.clear()
        request_id = request.id

        def sink(event: Event) -> None:
            self._arrived.append((request_id, event))
            if not self._waking:
                self._waking = True
                self._loop.call_soon_threadsafe(self._deliver)

        self._engine.submit(request, sink)

    def cancel(self, request_id: str) -> None:
        self._engine.cancel(request_id)

    async def close(self) -> None:
        """Close the engine; events that it still emits are delivered before this returns."""
        await asyncio.to_thread(self._engine.close)
        self._deliver()

    def _deliver(self) -> None:
        # Cleared before looking: an event that comes while we look wakes us once more, none is overlooked.
        self._waking = False
        while self._arrived:
            request_id, event = self._arrived.popleft()
            terminal = isinstance(event, (Done, Failed))
            receiver = self._receivers.pop(request_id, None) if terminal else self._receivers.get(request_id)
            if not self._receivers:
                self.idle.set()
            if receiver is not None:
                receiver(event)
