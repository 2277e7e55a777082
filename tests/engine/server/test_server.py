"""The server over real sockets, with the plain websocket client: what the SDK would hide is seen here."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import time
from pathlib import Path

import msgspec
import pytest
from serving import serving
from ultra_engine.server.session import MAX_MESSAGE_BYTES
from ultra_engine.testing import Reply
from ultra_sdk.protocol import (
    Cancel,
    Create,
    Delta,
    Done,
    Failed,
    Fault,
    Hello,
    Ping,
    Pong,
    Queued,
    SampleDone,
)
from ultra_sdk.protocol.runtime import read_info
from websockets.exceptions import ConnectionClosed, InvalidStatus
from wire_client import dial, get, hear, say, until_terminal

SLOW = Reply([f"w{number} " for number in range(500)], delay=0.02)


@pytest.mark.parametrize("port", [None, 0])
async def test_a_request_over_either_transport(port: int | None) -> None:
    async with serving(Reply(["a", "b", "c"]), port=port) as served, dial(served) as socket:
        hello = await hear(socket)
        assert isinstance(hello, Hello) and hello.model == "scripted"
        await say(socket, Create("r", prompt="one two three"))
        heard = await until_terminal(socket, "r")
        assert [message.seq for message in heard] == list(range(1, len(heard) + 1))
        assert "".join(message.text for message in heard if isinstance(message, Delta)) == "abc"
        assert isinstance(heard[-2], SampleDone) and heard[-2].finish == "stop"
        assert heard[-1].usage.prompt_tokens == 3 and heard[-1].usage.output_tokens == 3
        await say(socket, Ping(4.5))
        assert await hear(socket) == Pong(4.5)


async def test_folder_socket_and_runtime_file_are_the_owners_alone(runtime_folder: Path) -> None:
    async with serving() as served:
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in runtime_folder.iterdir()}
        assert modes["scripted.json"] == modes["scripted.sock"] == 0o600
        assert stat.S_IMODE(runtime_folder.stat().st_mode) == 0o700
        info = read_info(runtime_folder / "scripted.json")
        assert info is not None and (info.pid, info.unix) == (os.getpid(), served.unix)
        assert len(info.token) >= 43, "256 bits"
    assert not (runtime_folder / "scripted.json").exists()
    assert not (runtime_folder / "scripted.sock").exists()


REFUSED = [
    ("GET /v1 HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
    ("GET /v1 HTTP/1.1\r\nHost: {host}\r\nOrigin: null\r\n\r\n", 403),
    ("GET /health HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\r\n", 403),
    ("GET /info HTTP/1.1\r\nHost: {host}\r\n\r\n", 404),
    ("GET /v1 HTTP/1.1\r\nHost: {host}\r\n\r\n", 401),
    ("GET /v1 HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer no\r\n\r\n", 401),
    ("GET /v1 HTTP/1.1\r\n\r\n", 400),
    ("GET /v1 HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n", 400),
]


@pytest.mark.parametrize("port", [None, 0])
async def test_cve_2026_59950_every_transport_has_the_same_gate(port: int | None) -> None:
    async with serving(port=port) as served:
        host = "localhost" if port is None else f"127.0.0.1:{served.claim.port}"
        for request, status in REFUSED:
            answer = await get(served, request.format(host=host))
            assert answer.startswith(f"HTTP/1.1 {status} "), (request, answer)
            assert "websockets" not in answer and "Python" not in answer
        health = await get(served, f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert health.startswith("HTTP/1.1 200 ") and health.endswith("\r\n\r\nok\n")


async def test_cve_2025_48956_giant_heads_are_refused() -> None:
    long = f"GET /{'a' * 9000} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    many = "".join(f"X-{number}: y\r\n" for number in range(300))
    async with serving() as served:
        for request in (long, f"GET /v1 HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"):
            # Newer versions of websockets say what was too large; the oldest just hang up.
            answer = await get(served, request)
            assert answer == "" or answer.split()[1] in ("400", "414", "431")


async def test_the_thirty_third_connection_is_refused() -> None:
    async with serving() as served:
        sockets = [await dial(served) for _ in range(32)]
        for socket in sockets:
            await hear(socket)
        with pytest.raises(InvalidStatus) as refused:
            await dial(served)
        assert refused.value.response.status_code == 503
        await sockets[0].close()
        async with asyncio.timeout(5):
            while len(served.server._links) > 31:
                await asyncio.sleep(0.01)
        sockets.append(await dial(served))
        for socket in sockets:
            await socket.close()


async def test_a_client_without_the_subprotocol_is_refused() -> None:
    async with serving() as served:
        with pytest.raises(InvalidStatus):
            await dial(served, subprotocols=None)


async def test_nonsense_does_not_close_the_connection() -> None:
    async with serving() as served, dial(served) as socket:
        await hear(socket)
        for frame in ("}", "\x00", '{"type":"attach","id":"x"}', b"\xff"):
            await socket.send(frame)
            assert isinstance(await hear(socket), Fault)
        await say(socket, Create("bad", prompt="x", n=99))
        [failed] = await until_terminal(socket, "bad")
        assert failed.error.param == "n"
        await say(socket, Create("good", prompt="x"))
        assert isinstance((await until_terminal(socket, "good"))[-1], Done)


async def test_a_crash_in_the_engine_ends_the_request_and_nothing_else() -> None:
    replies = iter([Reply(["a"], crash=True), Reply(["b"])])
    async with serving(lambda _: next(replies)) as served, dial(served) as socket:
        await say(socket, Create("1", prompt="x"))
        failed = (await until_terminal(socket, "1"))[-1]
        assert isinstance(failed, Failed) and failed.error.code == "engine_failed"
        await say(socket, Create("2", prompt="x"))
        assert isinstance((await until_terminal(socket, "2"))[-1], Done)


async def test_an_over_long_prompt_fails_with_both_numbers() -> None:
    async with serving() as served, dial(served) as socket:
        await say(socket, Create("r", prompt="word " * 5000))
        failed = (await until_terminal(socket, "r"))[-1]
        assert isinstance(failed, Failed) and failed.error.code == "prompt_too_long"
        assert "5000" in failed.error.message and "4095" in failed.error.message


async def test_a_full_queue_is_told_at_once() -> None:
    async with serving(SLOW, max_queue=1) as served, dial(served) as one, dial(served) as two:
        await say(one, Create("runs", prompt="x"))
        while not isinstance(await hear(one), Delta):
            pass
        await say(one, Create("waits", prompt="x"))
        while not isinstance(await hear(one), Queued):
            pass
        await say(two, Create("r", prompt="x"))
        [failed] = await until_terminal(two, "r")
        assert failed.error.code == "queue_full" and failed.error.retryable


async def test_cancel_of_running_and_queued_requests_is_prompt_and_ends_once() -> None:
    async with serving(SLOW) as served, dial(served) as socket:
        await hear(socket)
        await say(socket, Create("runs", prompt="x"))
        await say(socket, Create("waits", prompt="x"))
        while not isinstance(await hear(socket), Delta):
            pass
        started = time.monotonic()
        for request_id in ("waits", "runs", "runs", "unknown"):
            await say(socket, Cancel(request_id))
        finishes = {}
        while len(finishes) < 2:
            message = await hear(socket)
            if isinstance(message, Done):
                finishes[message.id] = message.finish
        assert finishes == {"runs": "cancelled", "waits": "cancelled"}
        assert time.monotonic() - started < 5, "the whole answer would take 10 s, the two 20"
        await say(socket, Cancel("runs"))
        await say(socket, Ping(1.0))
        assert await hear(socket) == Pong(1.0)


async def test_vllm_9428_disconnect_cancels_in_the_engine() -> None:
    async with serving(SLOW) as served:
        async with dial(served) as socket:
            await say(socket, Create("r", prompt="x"))
            await say(socket, Create("q", prompt="x"))
            while not isinstance(await hear(socket), Delta):
                pass
        async with asyncio.timeout(5):
            await served.server.bridge.idle.wait()
        assert sorted(served.engine.cancels) == sorted(request.id for request in served.engine.requests)


async def test_a_slow_prefill_sends_heartbeats() -> None:
    async with serving(Reply(["a"], prefill=3.5)) as served, dial(served) as socket:
        await say(socket, Create("r", prompt="x"))
        beats: list[float] = []
        while True:
            message = await hear(socket)
            beats.append(time.monotonic())
            if isinstance(message, Delta):
                break
        gaps = [after - before for before, after in zip(beats, beats[1:], strict=False)]
        assert max(gaps) < 3, gaps
        assert len(beats) >= 4


async def test_two_clients_do_not_hear_each_other() -> None:
    async with (
        serving(lambda r: Reply([r.prompt or ""] * 3)) as served,
        dial(served) as one,
        dial(served) as two,
    ):
        await say(one, Create("same", prompt="one"))
        await say(two, Create("same", prompt="two"))
        for socket, word in ((one, "one"), (two, "two")):
            heard = await until_terminal(socket, "same")
            assert "".join(m.text for m in heard if isinstance(m, Delta)) == word * 3


async def test_a_megabyte_of_prompt_and_one_message_too_many() -> None:
    async with serving(lambda r: Reply([str(len(r.prompt or ""))])) as served:
        async with dial(served) as socket:
            await say(socket, Create("r", prompt="x" * 1_000_000))
            heard = await until_terminal(socket, "r")
            assert [m.text for m in heard if isinstance(m, Delta)] == ["1000000"]
        socket = await dial(served)  # not `async with`: asyncio may fail to abort a half-closed transport
        with pytest.raises(ConnectionClosed) as closed:
            await socket.send("x" * (MAX_MESSAGE_BYTES + 1))
            await hear(socket)
            await hear(socket)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        async with dial(served) as socket:
            assert isinstance(await hear(socket), Hello), "the server lives on"


async def test_a_client_that_never_reads_is_dropped_and_its_request_cancelled() -> None:
    chunk = "x" * 100_000
    async with serving(Reply([chunk] * 2000, delay=0.001), write_seconds=0.3) as served:
        socket = await dial(served, max_queue=1)
        await say(socket, Create("r", prompt="x"))
        async with asyncio.timeout(20):
            while not served.engine.cancels:
                await asyncio.sleep(0.05)
        socket.transport.abort()


async def test_a_client_that_asks_faster_than_it_listens_is_not_a_leak() -> None:
    async with serving() as served:
        socket = await dial(served, max_queue=1, ping_interval=None)
        flood = msgspec.json.encode(Ping(1.0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                while True:  # until both directions are full, and the server has stopped reading
                    await socket.send(flood, text=True)
        [link] = served.server._links
        assert len(link._session.outbox) <= 2048
        socket.transport.abort()


async def test_prompts_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "ultra_engine")
    async with serving() as served, dial(served) as socket:
        await say(socket, Create("r", prompt="swordfish"))
        await until_terminal(socket, "r")
    ours = [record for record in caplog.records if record.name.startswith("ultra_engine")]
    assert not any("swordfish" in record.getMessage() for record in ours)


async def test_a_handshake_that_never_comes_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ultra_engine.server.server.OPEN_SECONDS", 0.5)
    async with serving() as served:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(served.unix)
            async with dial(served) as other:
                assert isinstance(await hear(other), Hello)
            silent.setblocking(False)
            async with asyncio.timeout(15):
                assert await asyncio.get_running_loop().sock_recv(silent, 100) in (b"", b"HTTP")
