"""The connection to the engine: made in the background, made anew after it broke."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from ultra_sdk import Client, EngineError, Hello

Dial = Callable[[str | None, Callable[[str], None]], Client]
"""Makes a client (not yet entered) of a model (None: the default), given where it reports its status."""


class EngineLink:
    """Holds one entered client. ``status`` says in words what takes long while there is none."""

    def __init__(self, dial: Dial, model: str | None = None) -> None:
        self.model = model
        self.status = ""
        self.hello: Hello | None = None
        """What the engine said of itself when it was last reached."""
        self.on_change: Callable[[], None] = lambda: None
        self.fetched = asyncio.Event()
        """Set once nothing is left to download, or the start has failed."""
        self._dial = dial
        self._client: Client | None = None
        self._opening: asyncio.Task[Client] | None = None

    def open(self) -> asyncio.Task[Client]:
        """Start connecting, or join the attempt that is under way."""
        if self._opening is None or (self._opening.done() and self._client is None):
            self._opening = asyncio.create_task(self._enter(), name="connect")
            self._opening.add_done_callback(_retrieve)
        return self._opening

    async def client(self) -> Client:
        """The entered client. Raises `EngineError` if the engine cannot be reached or started."""
        client = await asyncio.shield(self.open())
        self.hello = client.info
        return client

    async def switch(self, model: str) -> None:
        """Leave the engine and use that of another model from now on."""
        await self.close()
        self.model = model
        self.hello = None

    async def close(self) -> None:
        """Close the connection or give up making it."""
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
            with contextlib.suppress(asyncio.CancelledError, EngineError):
                await opening
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _enter(self) -> Client:
        client = self._dial(self.model, self._report)
        try:
            await client.__aenter__()
        except EngineError:
            self._report("")
            raise
        finally:
            self.fetched.set()
        self._client = client
        self.hello = client.info
        self._report("")
        return client

    def _report(self, status: str) -> None:
        self.status = status
        if status and not status.startswith("fetching"):
            self.fetched.set()
        self.on_change()


def _retrieve(task: asyncio.Task[Client]) -> None:
    """Whoever awaits the client gets its error; nobody awaiting it is no fault."""
    if not task.cancelled():
        task.exception()
