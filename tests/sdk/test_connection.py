"""Dialling, and servers that do not keep to the protocol."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from ultra_sdk import (
    ConnectError,
    Delta,
    Done,
    ProtocolError,
    Timeout,
    Unauthorized,
    Unknown,
    connect,
)
from ultra_sdk.protocol import Hello, Limits
from ultra_sdk.testing import FakeEngine
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol


async def test_a_wrong_token_is_unauthorized() -> None:
    with FakeEngine() as fake:
        with pytest.raises(Unauthorized) as refused:
            async with connect(unix=fake.unix, token="wrong"):
                pass
        assert "wrong" not in str(refused.value)


@pytest.mark.parametrize("where", [{"unix": "/nowhere.sock"}, {"url": "127.0.0.1:1"}, {"url": "ws://[x"}])
async def test_nobody_there_is_a_connect_error(where: dict[str, str]) -> None:
    with pytest.raises(ConnectError):
        async with connect(**where):  # type: ignore[arg-type]
            pass


async def test_something_else_there_is_a_connect_error() -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(rude, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectError, match="is no Ultra server"):
            async with connect(url=f"ws://127.0.0.1:{port}", token="t"):
                pass


async def test_a_server_that_says_nothing_runs_into_the_connect_timeout() -> None:
    silent = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    server = await asyncio.start_server(wait, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectError, match="did not answer within 0.3 s"):
            async with connect(url=f"ws://127.0.0.1:{port}", token="t", timeout=Timeout(connect=0.3)):
                pass
        silent.set()


async def test_a_redirect_does_not_get_our_token() -> None:
    asked: list[bytes] = []

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        port = writer.get_extra_info("sockname")[1]
        writer.write(f"HTTP/1.1 302 Found\r\nLocation: ws://localhost:{port}/v1\r\n\r\n".encode())
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectError, match="HTTP 302"):
            async with connect(url=f"ws://127.0.0.1:{port}", token="t"):
                pass
    assert len(asked) == 1


async def test_messages_of_a_newer_server_are_passed_on_and_fields_ignored() -> None:
    async def newer(socket: ServerConnection) -> None:
        hello = Hello(1, "9", "m", "s", ["new"], Limits(10**6, 9, 9, 9, 9), 2000)
        await socket.send(msgspec.json.encode(hello).decode()[:-1] + ', "more": 1}')
        create = msgspec.json.decode(await socket.recv())
        start = f'{{"id": "{create["id"]}", "seq": '
        await socket.send(start + '1, "type": "thought", "text": "hm"}')
        await socket.send(start + '2, "type": "delta", "text": "a", "count": 1, "new": [1]}')
        await socket.send('{"type": "weather", "sky": "blue"}')
        await socket.send(start + '3, "type": "done", "finish": "stop"}')
        await socket.wait_closed()

    async with serve(newer, "127.0.0.1", 0, subprotocols=[Subprotocol("engine.v1")]) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(url=f"127.0.0.1:{port}", token="t") as engine, engine.stream("x") as stream:
            events = [event async for event in stream]
            assert [type(event) for event in events] == [Unknown, Delta, Done]
            assert (await stream.result()).text == "a"


BROKEN = [
    '{"type": "delta", "id": "%s", "seq": "one"}',
    "}",
    '{"type": "done", "id": "%s", "seq": 2, "finish": "stop"}',
]


@pytest.mark.parametrize("frame", BROKEN)
async def test_a_server_that_breaks_the_protocol_is_told_apart(frame: str) -> None:
    async def broken(socket: ServerConnection) -> None:
        hello = Hello(1, "9", "m", "s", [], Limits(10**6, 9, 9, 9, 9), 2000)
        await socket.send(msgspec.json.encode(hello).decode())
        create = msgspec.json.decode(await socket.recv())
        await socket.send(frame.replace("%s", create["id"]))
        await socket.wait_closed()

    async with serve(broken, "127.0.0.1", 0, subprotocols=[Subprotocol("engine.v1")]) as server:
        port = server.sockets[0].getsockname()[1]
        async with connect(url=f"127.0.0.1:{port}", token="t") as engine:
            with pytest.raises(ProtocolError):
                await engine.generate("x")


@pytest.mark.parametrize("frame", ["hi", '{"type": "pong"}', '{"type": "hello", "protocol": 2}'])
async def test_a_server_without_a_proper_hello_is_refused(frame: str) -> None:
    async def rude(socket: ServerConnection) -> None:
        await socket.send(frame)
        await socket.wait_closed()

    async with serve(rude, "127.0.0.1", 0, subprotocols=[Subprotocol("engine.v1")]) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ProtocolError):
            async with connect(url=f"127.0.0.1:{port}", token="t"):
                pass
