"""uvicorn inside our own loop."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from ..bridge import Bridge
from ..gate import Gate
from .app import PATHS, make_app


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are the outer server's


class Endpoint:
    """Serves the OpenAI routes on a bound loopback socket until `stop`."""

    def __init__(self, bridge: Bridge, token: str, bound: socket.socket) -> None:
        port = int(bound.getsockname()[1])
        config = uvicorn.Config(
            make_app(bridge, Gate(token, port, PATHS)),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=2**16,
        )
        self._server = _Uvicorn(config)
        self._bound = bound

    async def run(self) -> None:
        await self._server.serve(sockets=[self._bound])

    def stop(self) -> None:
        """Finish what is being answered, then let `run` return."""
        self._server.should_exit = True
