"""Finding a server: the one that was named, or one that runs."""

from __future__ import annotations

import asyncio
import os

import msgspec

from .connection import PATH, Address, Connection
from .errors import ConnectError, ProtocolError, Unauthorized
from .protocol.runtime import RuntimeInfo, running


class Target(msgspec.Struct, frozen=True):
    """What the user asked `connect` for."""

    model: str | None = None
    url: str | None = None
    unix: str | None = None
    token: str | None = None
    start: bool = True

    def pinned(self, connection: Connection) -> Target:
        """The same wish, but for the model of ``connection`` if it was for any."""
        if self.model is not None or connection.address.name is None:
            return self
        return msgspec.structs.replace(self, model=connection.address.name)

    def __repr__(self) -> str:
        return f"Target({self.url or self.unix or self.model})"


async def find(model: str | None, timeout: float) -> Connection | None:
    """A connection to the newest running server (of ``model``) that answers; None if none does.

    A server that answers but refuses us is an error, not an absence.
    """
    for info in await asyncio.to_thread(running, model):
        try:
            return await Connection.open(address(info), timeout)
        except (Unauthorized, ProtocolError):
            raise
        except ConnectError:
            continue  # its process lives (or its pid was reused) but nobody answers: try an older one
    return None


def address(info: RuntimeInfo) -> Address:
    """Where the server of a runtime file listens."""
    if info.unix is not None:
        return Address(token=info.token, unix=info.unix, name=info.name)
    host = f"[{info.host}]" if info.host and ":" in info.host else info.host
    return Address(token=info.token, url=f"ws://{host}:{info.port}{PATH}", name=info.name)


def named(target: Target) -> Address:
    """Where the server listens whose place the user gave. Raises `ConnectError` for two places at once."""
    if target.url is not None and target.unix is not None:
        raise ConnectError("give either url or unix, not both")
    url = target.url
    if url is not None:
        if "://" not in url:
            url = f"ws://{url}"
        if url.startswith("http"):
            url = f"ws{url.removeprefix('http')}"
        url = url if url.rstrip("/").endswith(PATH) else url.rstrip("/") + PATH
    token = target.token or os.environ.get("ULTRA_TOKEN")
    if token is None:
        places = ((address(info), info.token) for info in running())
        token = next((its for where, its in places if where.url == url and where.unix == target.unix), "")
    return Address(token=token, unix=target.unix, url=url)
