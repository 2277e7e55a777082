"""From what the user asked for to a connection: a server that was named, that runs, or that we start."""

from __future__ import annotations

from collections.abc import Callable

from .connection import Connection
from .discovery import Target, find, named
from .errors import ConnectError
from .launch import launch


async def reach(target: Target, timeout: float, on_status: Callable[[str], None] | None) -> Connection:
    """Connect to what ``target`` means. Raises `ConnectError`, `Unauthorized` or `ProtocolError`."""
    if target.url is not None or target.unix is not None:
        return await Connection.open(named(target), timeout)
    connection = await find(target.model, timeout)
    if connection is not None:
        return connection
    if not target.start:
        what = f"no server of {target.model} is running" if target.model else "no server is running"
        raise ConnectError(f"{what}: start one with `ultra serve`")
    return await launch(target.model, timeout, on_status or _quiet)


def _quiet(status: str) -> None:
    pass
