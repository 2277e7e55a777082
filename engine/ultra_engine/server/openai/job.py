"""One request on its way through the engine, as an async iterator."""

from __future__ import annotations

import asyncio
from types import TracebackType

from ...request import Done, Event, Failed, Queued, Request
from ..bridge import Bridge


class Job:
    """``async with Job(bridge, request) as job: async for event in job``; leaving early cancels."""

    def __init__(self, bridge: Bridge, request: Request) -> None:
        self._bridge = bridge
        self._request = request
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._first: Event | None = None
        self._ended = False

    async def __aenter__(self) -> Job:
        self._bridge.submit(self._request, self._events.put_nowait)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            self._bridge.cancel(self._request.id)

    async def start(self) -> Failed | None:
        """Wait until the request leaves the queue; the reason if it failed instead.

        Only then is it known whether the answer's status is 200.
        """
        event: Event = Queued(0)
        while isinstance(event, Queued):
            event = await self._events.get()
        self._first = event
        if isinstance(event, Failed):
            self._ended = True
            return event
        return None

    def __aiter__(self) -> Job:
        return self

    async def __anext__(self) -> Event:
        if self._ended:
            raise StopAsyncIteration
        event, self._first = self._first, None
        if event is None:
            event = await self._events.get()
        self._ended = isinstance(event, (Done, Failed))
        return event
