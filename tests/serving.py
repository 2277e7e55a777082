"""A real server around a scripted engine, in the test's own loop or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

from ultra_engine.server.claim import Claim
from ultra_engine.server.server import Server
from ultra_engine.testing import Reply, Script, ScriptedEngine

ROOT = Path(__file__).parent.parent
SOURCES = os.pathsep.join(str(ROOT / name) for name in ("kernels", "engine", "sdk", "tui", "tests"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Served:
    server: Server
    engine: ScriptedEngine
    claim: Claim
    task: asyncio.Task[None]

    @property
    def unix(self) -> str:
        return self.claim.place.removeprefix("unix:")

    @property
    def http(self) -> str:
        assert self.claim.http is not None
        return f"http://127.0.0.1:{self.claim.http.getsockname()[1]}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.claim.token}"}


@contextlib.asynccontextmanager
async def serving(
    script: Script | None = None,
    *,
    port: int | None = None,
    idle_exit: float | None = None,
    write_seconds: float = 30.0,
    drain_seconds: float = 0.0,
    max_queue: int = 256,
    openai: bool = False,
) -> AsyncIterator[Served]:
    """Runs until the block is left; stopping it earlier is fine."""
    with Claim("scripted", port, openai_port=0 if openai else None) as claim:
        engine = ScriptedEngine(script, max_queue=max_queue)
        server = Server(
            engine, claim, idle_exit=idle_exit, write_seconds=write_seconds, drain_seconds=drain_seconds
        )
        ready = asyncio.Event()
        task = asyncio.create_task(server.run(ready.set))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        try:
            yield Served(server, engine, claim, task)
        finally:
            server.stop()
            await task


@contextlib.contextmanager
def server_process(reply: str = "Reply()", seconds: float = 60.0) -> Iterator[subprocess.Popen[str]]:
    """The same in a process of its own, to be killed; it has said that it is ready when this returns."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", __file__, reply],
        stdout=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "ULTRA_RUNTIME_DIR": os.environ["ULTRA_RUNTIME_DIR"]},
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().startswith("serving scripted on unix:")
        yield process
    finally:
        process.kill()
        process.wait(seconds)
        process.stdout.close()


async def _main(reply: str) -> None:
    with Claim("scripted") as claim:
        server = Server(ScriptedEngine(eval(reply, {"Reply": Reply})), claim)
        server.handle_signals()
        await server.run(lambda: print(f"serving scripted on {claim.place}", flush=True))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
