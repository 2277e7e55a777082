"""One websocket: a reader, a writer and a clock around a `Session`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import secrets

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from .. import __version__
from ..request import Event
from .bridge import Bridge
from .session import HEARTBEAT_SECONDS, Order, Session, Submit

log = logging.getLogger(__name__)

WRITE_SECONDS = 30.0
"""A client that takes nothing for so long is dropped."""
BACKLOG = 1024
"""Messages that may wait before we stop reading from a client that asks faster than it listens."""
CLOSE_SECONDS = 2.0


class Link:
    """Serves one client until it goes, then stops what it had running."""

    def __init__(
        self, socket: ServerConnection, bridge: Bridge, write_seconds: float = WRITE_SECONDS
    ) -> None:
        self._socket = socket
        self._bridge = bridge
        self._write_seconds = write_seconds
        self._loop = asyncio.get_running_loop()
        self._session = Session(bridge.info, secrets.token_hex(8), __version__)
        self._wake = asyncio.Event()
        self._wake.set()  # for the hello
        self._flushed = asyncio.Event()
        self._sending = 0
        self._deaf = False
        """The client takes nothing any more."""

    async def run(self) -> None:
        """Until the connection is closed by either side."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._write()), group.create_task(self._beat())]
                with contextlib.suppress(ConnectionClosed):
                    await self._read()
                for task in tasks:
                    task.cancel()
        finally:
            self._obey(self._session.disconnect())

    def goaway(self, reason: str, drain_ms: int) -> None:
        self._session.goaway(reason, drain_ms)
        self._wake.set()

    async def leave(self) -> None:
        """Say the last words and close; after the engine was closed."""
        self._session.abandon("the server was stopped")
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._until_waiting(0)
                await self._socket.close(1001, "the server was stopped")
                return
        self._socket.transport.abort()

    async def _read(self) -> None:
        while True:
            data = await self._socket.recv(decode=False)
            self._obey(self._session.receive(data, self._loop.time()))
            self._wake.set()
            await self._until_waiting(BACKLOG)

    async def _until_waiting(self, most: int) -> None:
        """Until at most so many messages wait to be sent, or nothing can be sent any more."""
        while not self._deaf and len(self._session.outbox) + self._sending > most:
            self._flushed.clear()
            await self._flushed.wait()

    async def _write(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._flush()
                # send() suspends only when the buffer is full: without this the reader, and with it
                # cancel, would starve.
                await asyncio.sleep(0)
        except ConnectionClosed:
            pass
        except TimeoutError:
            await self._drop()
        finally:
            self._deaf = True
            self._flushed.set()

    async def _flush(self) -> None:
        frames = self._session.outbox.flush()
        self._sending = len(frames)
        for data in frames:
            async with asyncio.timeout(self._write_seconds):
                await self._socket.send(data, text=True)
            self._sending -= 1
        self._flushed.set()

    async def _drop(self) -> None:
        self._obey(self._session.disconnect())  # at once: saying goodbye may take its time
        log.warning("dropped a client that took nothing for %g s", self._write_seconds)
        with contextlib.suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(1008, "slow consumer")
        self._socket.transport.abort()

    async def _beat(self) -> None:
        # Half the promised interval, so that the promise holds wherever in it a request falls silent.
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS / 2)
            self._session.heartbeat(self._loop.time(), HEARTBEAT_SECONDS / 2)
            if self._session.outbox:
                self._wake.set()

    def _obey(self, orders: list[Order]) -> None:
        for order in orders:
            if isinstance(order, Submit):
                self._bridge.submit(order.request, functools.partial(self._event, order.id))
            else:
                self._bridge.cancel(order.engine_id)

    def _event(self, request_id: str, event: Event) -> None:
        self._session.event(request_id, event, self._loop.time())
        self._wake.set()
