"""One real server of the small real model, shared by the end-to-end tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from serving import ENVIRONMENT
from ultra_engine.weights.hub import resolve
from ultra_engine.weights.registry import TEST_MODEL
from ultra_sdk.protocol.runtime import RuntimeInfo


@dataclass(frozen=True)
class Served:
    """``env`` is for processes that are to find the server; ``info`` is its runtime file."""

    env: dict[str, str]
    info: RuntimeInfo


def runtime_info(folder: Path) -> RuntimeInfo:
    (file,) = folder.glob("*.json")
    return msgspec.json.decode(file.read_bytes(), type=RuntimeInfo)


@contextlib.contextmanager
def runtime_folder() -> Iterator[tuple[Path, dict[str, str]]]:
    """A private runtime folder (short: socket paths are limited); whoever was left running in it is ended."""
    with tempfile.TemporaryDirectory(prefix="ultra-") as folder:
        try:
            yield Path(folder), ENVIRONMENT | {"ULTRA_RUNTIME_DIR": folder}
        finally:
            for file in Path(folder).glob("*.json"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(msgspec.json.decode(file.read_bytes(), type=RuntimeInfo).pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """`ultra serve` with the test model in float32, where a greedy text does not hang on a last bit."""
    resolve(TEST_MODEL)
    with runtime_folder() as (folder, env):
        command = [sys.executable, "-m", "ultra_engine", "serve", "--model", TEST_MODEL]
        process = subprocess.Popen(
            [*command, "--precision", "float32"], env=env, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout
        assert process.stdout.readline().startswith(f"serving {TEST_MODEL} on unix:")
        yield Served(env, runtime_info(folder))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.stdout.close()
        assert not list(folder.iterdir()) or {p.suffix for p in folder.iterdir()} <= {".lock"}
