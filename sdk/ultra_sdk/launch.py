"""Starting a server in the background when none runs.

The model is fetched first, by a child whose progress bar goes to our own stderr; then the server is started
in a session of its own, so that it outlives us and Ctrl-C does not reach it. Its log is a runtime file, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from .connection import Connection
from .errors import ConnectError
from .protocol.runtime import DEFAULT_MODEL, canonical, lock_path, private_dir, runtime_dir, slug

IDLE_EXIT_SECONDS = 900
START_SECONDS = 600.0
"""How long a server may take to load its model."""
POLL_SECONDS = 0.1
ATTEMPTS = 3
ULTRA = [sys.executable, "-m", "ultra_engine"]
NO_ENGINE = "no server is running and the engine is not installed here: pip install 'ultra-chat[engine]'"


async def launch(model: str | None, timeout: float, on_status: Callable[[str], None]) -> Connection:
    """Fetch the model if need be, start its server and connect. Raises `ConnectError`."""
    model = canonical(model or DEFAULT_MODEL)
    if importlib.util.find_spec("ultra_engine") is None:
        raise ConnectError(NO_ENGINE)
    log = private_dir(runtime_dir()) / f"{slug(model)}.log"
    if not locked(model):
        on_status(f"fetching {model}")
        await _pull(model)
    on_status(f"loading {model}")
    for _ in range(ATTEMPTS):
        # Somebody else may be starting the same server: then its lock is held, and we wait for that one.
        child = None if locked(model) else _spawn(model, log)
        connection = await _await_server(model, timeout, child)
        if connection is not None:
            on_status(f"connected to {connection.hello.model}")
            return connection
        if child is not None and "already running" not in last_line(log):
            break
    raise ConnectError(f"the server of {model} did not start: {last_line(log)} (log: {log})")


async def _pull(model: str) -> None:
    # On a terminal the child shows its progress and its error itself; elsewhere we quote the error.
    shown = sys.stderr is not None and sys.stderr.isatty()
    child = await asyncio.create_subprocess_exec(
        *ULTRA,
        "models",
        "pull",
        model,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if shown else subprocess.PIPE,
    )
    try:
        _, said = await child.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await child.wait()
        raise
    if child.returncode != 0:
        reason = "the reason is above" if shown else final_line(said.decode(errors="replace"))
        raise ConnectError(f"{model} could not be fetched: {reason}")


def _spawn(model: str, log: Path) -> subprocess.Popen[bytes]:
    command = [*ULTRA, "serve", "--model", model, "--idle-exit", str(IDLE_EXIT_SECONDS)]
    with log.open("wb") as out:
        log.chmod(0o600)
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},  # or what it printed first would be logged last
        )


async def _await_server(
    model: str, timeout: float, child: subprocess.Popen[bytes] | None
) -> Connection | None:
    """Connect as soon as the server answers; None when it has exited, or it takes `START_SECONDS`."""
    from .discovery import find

    loop = asyncio.get_running_loop()
    give_up = loop.time() + START_SECONDS
    try:
        while loop.time() < give_up:
            # Looked at before the search: a server that leaves in between is found gone next time.
            gone = child.poll() is not None if child is not None else not locked(model)
            connection = await find(model, timeout)
            if connection is not None or gone:
                return connection
            await asyncio.sleep(POLL_SECONDS)
        return None
    finally:
        if child is not None and child.returncode is None:
            # It is meant to outlive us; if it does not, somebody must reap it.
            threading.Thread(target=child.wait, daemon=True, name="ultra server reaper").start()


def locked(model: str) -> bool:
    """Whether a server of ``model`` runs or is starting: it holds the lock for its whole life."""
    try:
        import fcntl
    except ImportError:  # no flock on Windows: the server itself refuses a second start
        return False
    try:
        with lock_path(model).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def last_line(log: Path) -> str:
    """The last line that a server logged, without the command's name."""
    try:
        return final_line(log.read_text(errors="replace"))
    except OSError:
        return "it left no log"


def final_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("ultra: ") if lines else "it said nothing"
