"""Speaking the wire to a served engine with the plain websocket client."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from serving import Served
from ultra_sdk.protocol import SUBPROTOCOL, Done, Failed, ServerMessage
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.typing import Subprotocol


def dial(served: Served, **settings: Any) -> Any:
    settings = {"subprotocols": [Subprotocol(SUBPROTOCOL)], "compression": None, **settings}
    settings.setdefault("additional_headers", served.headers)
    if served.claim.port is None:
        return unix_connect(served.unix, "ws://localhost/v1", **settings)
    return connect(f"{served.claim.place}/v1", proxy=None, **settings)


async def hear(socket: ClientConnection) -> ServerMessage:
    async with asyncio.timeout(10):
        return msgspec.json.decode(await socket.recv(), type=ServerMessage)


async def say(socket: ClientConnection, message: Any) -> None:
    await socket.send(msgspec.json.encode(message), text=True)


async def until_terminal(socket: ClientConnection, request_id: str) -> list[Any]:
    heard: list[Any] = []
    while not heard or not isinstance(heard[-1], (Done, Failed)):
        message = await hear(socket)
        if getattr(message, "id", None) == request_id:
            heard.append(message)
    return heard


async def get(served: Served, request: str) -> str:
    """The status line and body that a raw request gets."""
    if served.claim.port is None:
        reader, writer = await asyncio.open_unix_connection(served.unix)
    else:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.claim.port)
    writer.write(request.encode())
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()
