"""The server: listens, asks the gate, gives each websocket a `Link`, and leaves in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

from ultra_sdk.protocol import SUBPROTOCOL
from websockets.asyncio.server import Server as Listener
from websockets.asyncio.server import ServerConnection, serve, unix_serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from ..face import EngineFace
from .bridge import Bridge
from .claim import Claim
from .gate import Gate, Head
from .link import CLOSE_SECONDS, WRITE_SECONDS, Link
from .session import MAX_MESSAGE_BYTES

PATH = "/v1"
OPEN_SECONDS = 5.0
"""For the opening handshake."""
DRAIN_SECONDS = 1.0
"""What is nearly done may end by itself when the server is asked to leave."""

# A logger of its own, never at DEBUG: there, websockets logs frames, and with them prompts.
_frames = logging.getLogger("ultra_engine.server.frames")
_frames.setLevel(logging.ERROR)


class Server:
    """Serves one engine at one place until it is stopped. Make it inside the running loop."""

    def __init__(
        self,
        engine: EngineFace,
        claim: Claim,
        *,
        idle_exit: float | None = None,
        write_seconds: float = WRITE_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self.bridge = Bridge(engine)
        self.gate = Gate(claim.token, claim.port, frozenset({PATH}))
        self._claim = claim
        self._idle_exit = idle_exit
        self._write_seconds = write_seconds
        self._drain_seconds = drain_seconds
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._links: set[Link] = set()
        self._last_busy = 0.0

    def stop(self) -> None:
        """Leave: once in good order, a second time without waiting for running requests."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until `stop`, a signal, or the idle exit; closes the engine.

        ``on_ready`` is called when clients can find us and connect.
        """
        loop = asyncio.get_running_loop()
        self._last_busy = loop.time()
        async with await self._listen() as listener, self._openai():
            try:
                self._claim.publish(self.bridge.info.model)
                on_ready()
                await self._until_stopped()
            finally:
                self._claim.withdraw()
                await self._leave(listener)

    @contextlib.asynccontextmanager
    async def _openai(self) -> AsyncIterator[None]:
        """The HTTP endpoint beside us, if the claim has a socket for it."""
        if self._claim.http is None:
            yield
            return
        from .openai.endpoint import Endpoint

        endpoint = Endpoint(self.bridge, self._claim.token, self._claim.http)
        task = asyncio.create_task(endpoint.run())
        try:
            yield
        finally:
            endpoint.stop()
            await task

    def handle_signals(self) -> None:
        """Let SIGTERM and SIGINT stop us."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self.stop)
            except NotImplementedError:  # Windows loops cannot
                signal.signal(number, lambda *_: loop.call_soon_threadsafe(self.stop))

    async def _listen(self) -> Listener:
        settings: dict[str, Any] = {
            "process_request": self._admit,
            "subprotocols": [Subprotocol(SUBPROTOCOL)],
            "compression": None,
            "server_header": None,
            "open_timeout": OPEN_SECONDS,
            "ping_interval": 20,
            "ping_timeout": 20,
            "close_timeout": CLOSE_SECONDS,
            "max_size": MAX_MESSAGE_BYTES,
            "max_queue": 16,
            "write_limit": 2**16,
            "logger": _frames,
            "sock": self._claim.socket,
        }
        kind = serve if self._claim.port is not None else unix_serve
        return await kind(self._connected, **settings)

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        headers = request.headers
        head = Head(
            path=request.path,
            host=headers.get_all("Host"),
            origin=headers.get_all("Origin"),
            authorization=headers.get_all("Authorization"),
        )
        answer = self.gate.check(head, len(self._links))
        if answer is None and self._stop.is_set():
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "the server is leaving\n")
        return None if answer is None else connection.respond(answer.status, answer.text + "\n")

    async def _connected(self, socket: ServerConnection) -> None:
        link = Link(socket, self.bridge, self._write_seconds)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)
            self._last_busy = asyncio.get_running_loop().time()

    async def _until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stop.is_set():
            wait = None
            if self._idle_exit is not None:
                if self._links or not self.bridge.idle.is_set():
                    self._last_busy = loop.time()
                wait = self._last_busy + self._idle_exit - loop.time()
                if wait <= 0:
                    self._stop.set()
                    return
                wait = max(0.01, wait)
            try:
                async with asyncio.timeout(wait):
                    await self._stop.wait()
            except TimeoutError:
                pass

    async def _leave(self, listener: Listener) -> None:
        """Every request gets its terminal message, every client its close frame."""
        listener.close(close_connections=False)
        for link in self._links:
            link.goaway("the server was stopped", int(self._drain_seconds * 1000))
        await self._drain()
        await self.bridge.close()
        await asyncio.gather(*(link.leave() for link in list(self._links)))

    async def _drain(self) -> None:
        waits = [asyncio.create_task(self.bridge.idle.wait()), asyncio.create_task(self._hurry.wait())]
        await asyncio.wait(waits, timeout=self._drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
