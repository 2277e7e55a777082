"""How the server ends, and what it leaves behind."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from serving import server_process, serving
from ultra_engine.testing import Reply
from ultra_sdk.protocol import (
    Create,
    Delta,
    Done,
    Failed,
    Goaway,
    Hello,
)
from ultra_sdk.protocol.runtime import RuntimeInfo, read_info, running
from websockets.exceptions import ConnectionClosed
from wire_client import dial, hear, say, until_terminal

SLOW = Reply([f"w{number} " for number in range(500)], delay=0.02)


async def test_shutdown_gives_every_request_its_end_and_leaves_nothing(runtime_folder: Path) -> None:
    async with serving(SLOW) as served, dial(served) as socket:
        await say(socket, Create("runs", prompt="x"))
        await say(socket, Create("waits", prompt="x"))
        while not isinstance(await hear(socket), Delta):
            pass
        served.server.stop()
        heard: list[Any] = []
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                heard.append(await hear(socket))
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        assert any(isinstance(message, Goaway) for message in heard)
        ends = {message.id: message.error.code for message in heard if isinstance(message, Failed)}
        assert ends == {"runs": "shutting_down", "waits": "shutting_down"}
        await served.task
    assert [path.name for path in runtime_folder.iterdir() if path.suffix != ".lock"] == []


async def test_what_is_nearly_done_may_finish_before_the_server_leaves() -> None:
    reply = Reply(["a"] * 10, delay=0.05)
    async with serving(reply, drain_seconds=5.0) as served, dial(served) as socket:
        await say(socket, Create("r", prompt="x"))
        while not isinstance(await hear(socket), Delta):
            pass
        served.server.stop()
        assert isinstance((await until_terminal(socket, "r"))[-1], Done)


async def test_idle_exit_waits_for_clients_to_go() -> None:
    async with serving(idle_exit=0.3) as served:
        async with dial(served) as socket:
            await hear(socket)
            await asyncio.sleep(0.8)
            assert not served.task.done()
        async with asyncio.timeout(10):
            await served.task


async def test_kill_leaves_a_stale_socket_and_the_next_start_cleans_it(runtime_folder: Path) -> None:
    with server_process() as process:
        process.kill()
        process.wait()
        assert (runtime_folder / "scripted.sock").exists() and running() == []
    async with serving() as served, dial(served) as socket:
        assert isinstance(await hear(socket), Hello)


async def test_sigterm_leaves_nothing_behind(runtime_folder: Path) -> None:
    with server_process() as process:
        info = read_info(runtime_folder / "scripted.json")
        assert isinstance(info, RuntimeInfo) and info.pid == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert [path.name for path in runtime_folder.iterdir() if path.suffix != ".lock"] == []
