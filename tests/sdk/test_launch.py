"""Starting a server in the background. The real server is started, around a scripted engine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import SOURCES
from ultra_sdk import ConnectError, connect, launch
from ultra_sdk.protocol.runtime import running

STUB = """
import sys
from pathlib import Path

command, model = sys.argv[1], sys.argv[3]
if command == "models":
    Path(__file__).with_name("pulls").open("a").write(model + "\\n")
    sys.exit(f"ultra: no model {model}: near ones are known" if model == "unknown" else 0)

import asyncio
from ultra_engine.errors import ServerError
from ultra_engine.server.claim import Claim
from ultra_engine.server.server import Server
from ultra_engine.testing import ScriptedEngine

async def main(claim):
    await asyncio.sleep(0.3)
    server = Server(ScriptedEngine(), claim, idle_exit=float(sys.argv[5]))
    server.handle_signals()
    await server.run()

if model == "broken":
    print("loading")
    print("ultra: broken.gguf: the file is truncated", file=sys.stderr)
    sys.exit(1)
try:
    with Claim(model) as claim:
        asyncio.run(main(claim))
except ServerError as error:
    sys.exit(f"ultra: {error}")
"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    script = tmp_path / "ultra.py"
    script.write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    monkeypatch.setattr(launch, "ULTRA", [sys.executable, str(script)])
    monkeypatch.setattr(launch, "IDLE_EXIT_SECONDS", 1)
    yield tmp_path
    for info in running():
        os.kill(info.pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while running() and time.monotonic() < deadline:
        time.sleep(0.05)


async def test_a_server_is_started_found_again_and_leaves_when_idle(stub: Path) -> None:
    said: list[str] = []
    async with connect("some-model", on_status=said.append) as engine:
        assert (await engine.generate("x")).text == "Hello, world."
        async with connect("some-model") as second:
            assert (await second.generate("x")).text == "Hello, world."
    assert said == ["fetching some-model", "loading some-model", "connected to scripted"]
    assert (stub / "pulls").read_text() == "some-model\n"
    async with asyncio.timeout(20):
        while running():
            await asyncio.sleep(0.05)


async def test_two_clients_at_once_start_one_server(stub: Path) -> None:
    async def ask() -> int:
        async with connect("m") as engine:
            await engine.generate("x")
            return running()[0].pid

    pids = await asyncio.gather(*(ask() for _ in range(3)))
    assert len(set(pids)) == 1 and len(running()) == 1


async def test_a_server_that_fails_is_quoted(stub: Path, runtime_folder: Path) -> None:
    with pytest.raises(ConnectError, match="did not start: broken.gguf: the file is truncated") as failed:
        async with connect("broken"):
            pass
    assert str(runtime_folder / "broken.log") in str(failed.value)


async def test_a_model_that_cannot_be_fetched_says_so(stub: Path) -> None:
    with pytest.raises(ConnectError, match="unknown could not be fetched: no model unknown: near ones are"):
        async with connect("unknown"):
            pass


async def test_after_a_crash_the_next_request_starts_the_server_anew(stub: Path) -> None:
    async with connect("m") as engine:
        await engine.generate("x")
        [info] = running()
        os.kill(info.pid, signal.SIGKILL)
        async with asyncio.timeout(10):
            while engine._connection is not None and engine._connection.usable:
                await asyncio.sleep(0.01)
        assert (await engine.generate("x")).text == "Hello, world."
        assert running()[0].pid != info.pid


async def test_without_the_engine_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConnectError, match=r"pip install 'ultra-chat\[engine\]'"):
        async with connect():
            pass


async def test_without_start_a_missing_server_is_an_error() -> None:
    with pytest.raises(ConnectError, match="no server of m is running: start one with `ultra serve`"):
        async with connect("m", start=False):
            pass
