"""Running one command under a policy."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import SandboxError
from . import bubblewrap, levels, seatbelt
from .environment import environment
from .output import Output
from .policy import Level, Policy, applicable

PACKAGES = str(Path(__file__).resolve().parents[3])
START = (
    f"import sys; sys.path.insert(0, {PACKAGES!r}); from ultra_sdk.agent.sandbox.jailer import main; main()"
)
GRACE_SECONDS = 5.0
"""How long the jailer may take beyond a command's time, and to kill what is left."""
TIMED_OUT = 124


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a command. ``exit_code`` is 128 + the signal's number for one that was killed."""

    exit_code: int
    output: str
    reason: Literal["timeout", "memory", "pids"] | None
    """The limit that it broke, if it did."""
    left: int
    """How many background processes were stopped when it ended."""
    seconds: float
    level: Level
    total_bytes: int
    """How much it wrote; ``output`` has a gap if that is too much."""
    path: Path | None
    """The file with all of it."""


async def run(
    command: str,
    policy: Policy,
    *,
    level: Level | None = None,
    cwd: Path | None = None,
    output: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a shell command and wait until it, and all it started, is gone.

    outcome = await run("pytest -q", Policy(root, tmp))

    The command ends when the shell does: what it left in the background is stopped then. Cancelling kills it.
    Raises `SandboxError` if it cannot be started under ``level`` (the strongest there is by default).
    """
    level = level or levels.strongest()
    levels.demand(level, policy)
    shell = shutil.which("bash") or "/bin/sh"
    argv = [*_prefix(level, policy), shell, "-c", command]
    job = _job(argv, level, policy, cwd or policy.root, os.environ if env is None else env)
    sink = Output(output)
    started = time.monotonic()
    report = await _supervised(job, sink)
    if report.get("error"):
        raise SandboxError(f"the command cannot be started: {report['error']}")
    reason = report["reason"]
    status = report["status"]
    code = TIMED_OUT if reason == "timeout" else 128 + signal.SIGKILL if status is None else _code(status)
    if reason is not None and code == 0:
        code = 128 + signal.SIGKILL
    return Outcome(
        code, sink.text(), reason, report["left"], time.monotonic() - started, level, sink.total, sink.path
    )


def _prefix(level: Level, policy: Policy) -> list[str]:
    if level == "bubblewrap":
        program = bubblewrap.find()
        assert program is not None
        return [*bubblewrap.prefix(program, policy), "--"]
    return seatbelt.prefix(policy) if level == "seatbelt" else []


def _job(argv: list[str], level: Level, policy: Policy, cwd: Path, env: Mapping[str, str]) -> dict[str, Any]:
    writable = [os.path.realpath(path) for path in ([policy.root] if policy.write else []) + [policy.tmp]]
    hidden = [str(path) for path in applicable(policy.hidden, policy)]
    return {
        "argv": argv,
        "cwd": str(cwd),
        "env": environment(env, policy.tmp),
        "seconds": policy.seconds,
        "memory_bytes": policy.memory_bytes,
        "pids": policy.pids,
        "file_bytes": policy.file_bytes,
        "landlock": {"writable": writable, "hidden": hidden} if level == "landlock" else None,
        "network": policy.network,
    }


async def _supervised(job: dict[str, Any], sink: Output) -> dict[str, Any]:
    jailer = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", START),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert jailer.stdin is not None and jailer.stdout is not None and jailer.stderr is not None
    reader = asyncio.create_task(_drain(jailer.stdout, sink))
    try:
        jailer.stdin.write(json.dumps(job).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await jailer.stdin.drain()
        async with asyncio.timeout(job["seconds"] + GRACE_SECONDS):
            said = await jailer.stderr.read()
            await jailer.wait()
        return _report(said)
    except TimeoutError:
        raise SandboxError("the supervising process does not answer; the command was killed") from None
    finally:
        # The closed pipe tells the jailer to kill everything. It is waited for even when we are cancelled.
        jailer.stdin.close()
        await asyncio.shield(_finish(jailer, reader, sink))


async def _drain(stream: asyncio.StreamReader, sink: Output) -> None:
    while data := await stream.read(1 << 16):
        sink.write(data)


async def _finish(jailer: asyncio.subprocess.Process, reader: asyncio.Task[None], sink: Output) -> None:
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            await jailer.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            jailer.kill()
        await jailer.wait()
    # All writers are dead, so the pipe ends by itself.
    await asyncio.wait([reader], timeout=1.0)
    reader.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reader
    sink.close()


def _report(said: bytes) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(said)
    except ValueError:
        raise SandboxError(
            f"the supervising process failed: {said.decode(errors='replace')[-300:]}"
        ) from None
    return report


def _code(status: int) -> int:
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
