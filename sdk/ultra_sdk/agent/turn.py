"""A turn as its consumer holds it: events of work that goes only as far as it is looked at."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType

from .events import Event, Finished

Emit = Callable[[Event], Awaitable[None]]
"""Hands over one event, and waits until the consumer has asked for the next one."""
Work = Callable[[Emit], Awaitable[None]]


class Turn:
    """One task at work. Made by `Agent.turn`.

    async for event in agent.turn("make the tests pass"):
        print(event)

    The agent does nothing before the first event is asked for, and nothing more until the next one is:
    whoever looks at a `ToolCalled` does so before the tool runs. No event is lost when ``__anext__`` is
    cancelled.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._wanted = asyncio.Event()
        self._asking = False
        self._closing = False

    async def __aenter__(self) -> Turn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> Event:
        if self._task is None:
            if self._closing:
                raise StopAsyncIteration
            self._task = asyncio.create_task(self._run(), name="agent turn")
            self._task.add_done_callback(lambda _: self._arrived.set())
        self._asking = True
        self._wanted.set()
        try:
            while not self._events:
                if self._task.done():
                    self._task.result()
                    raise StopAsyncIteration
                self._arrived.clear()
                await self._arrived.wait()
            return self._events.popleft()
        finally:
            self._asking = False

    @property
    def over(self) -> bool:
        """Whether the agent is done with it, events that nobody has taken aside."""
        return self._task.done() if self._task is not None else self._closing

    def cancel(self) -> None:
        """Stop, from any task: what runs is ended in order, and the last event says so. Idempotent."""
        if self._closing:
            return
        self._closing = True
        self._wanted.set()
        if self._task is not None:
            self._task.cancel()

    async def aclose(self) -> None:
        """Stop if it still runs, and wait until it has. Idempotent."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])
            with contextlib.suppress(asyncio.CancelledError):
                self._task.result()

    async def _run(self) -> None:
        await self._work(self._emit)

    async def _emit(self, event: Event) -> None:
        self._events.append(event)
        self._arrived.set()
        if isinstance(event, Finished):
            self._closing = True  # too late to be stopped
        while not self._closing and not (self._asking and not self._events):
            self._wanted.clear()
            await self._wanted.wait()
