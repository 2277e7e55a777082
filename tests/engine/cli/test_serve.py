"""`ultra serve` as a process, with a scripted engine in the place of the real one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import ENVIRONMENT
from ultra_sdk import connect
from ultra_sdk.protocol.runtime import running

STUB = """
import sys, types
from ultra_engine.errors import UnknownModel
from ultra_engine.testing import ScriptedEngine

class Engine:
    @staticmethod
    def open(model, *, context, **options):
        if model == "qwne":
            raise UnknownModel("there is no model qwne; near ones: qwen")
        if model == "slow":
            print("loading", flush=True)
            import time; time.sleep(60)
        return ScriptedEngine(context_tokens=context or 4096)

sys.modules["ultra_engine.engine"] = types.ModuleType("ultra_engine.engine")
sys.modules["ultra_engine.engine"].Engine = Engine
from ultra_engine.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextlib.contextmanager
def ultra(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", STUB, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "ULTRA_RUNTIME_DIR": os.environ["ULTRA_RUNTIME_DIR"]},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def failure(*arguments: str) -> tuple[int, str]:
    with ultra(*arguments) as process:
        out, err = process.communicate(timeout=60)
        assert out == ""
        return process.returncode, err


async def test_serve_says_where_and_serves_until_sigint(runtime_folder: Path) -> None:
    with ultra("serve", "--model", "m", "--context", "77") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"serving scripted on unix:{runtime_folder / 'm.sock'}\n"
        async with connect("m", start=False) as engine:
            assert engine.info.context_tokens == 77
            assert (await engine.generate("x")).text == "Hello, world."
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.communicate()[1] == ""
    assert [path.suffix for path in runtime_folder.iterdir() if path.suffix != ".lock"] == []


async def test_serve_on_tcp() -> None:
    with ultra("serve", "--model", "m", "--tcp") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving scripted on ws://127.0.0.1:")
        async with connect("m", start=False) as engine:
            assert (await engine.generate("x")).text == "Hello, world."


def test_a_second_server_is_one_line_and_exit_code_1() -> None:
    with ultra("serve", "--model", "m") as process:
        assert process.stdout is not None and process.stdout.readline()
        code, err = failure("serve", "--model", "m")
        assert (code, err) == (1, f"ultra: a server of m is already running (pid {process.pid})\n")
        assert len(running()) == 1


def test_a_model_error_is_one_line_and_leaves_nothing(runtime_folder: Path) -> None:
    assert failure("serve", "--model", "qwne") == (1, "ultra: there is no model qwne; near ones: qwen\n")
    assert [path.suffix for path in runtime_folder.iterdir() if path.suffix != ".lock"] == []


def test_sigterm_while_loading_leaves_nothing(runtime_folder: Path) -> None:
    with ultra("serve", "--model", "slow") as process:
        assert process.stdout is not None and process.stdout.readline() == "loading\n"
        process.terminate()
        assert process.wait(30) == 143
    assert [path.suffix for path in runtime_folder.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize(
    "arguments",
    [["--tcp", "70000"], ["--tcp", "x"], ["--idle-exit", "0"], ["--idle-exit", "nan"], ["--context", "0"]]
    + [["--threads", "-1"], ["--precision", "float8"], ["--executor", "gpu"]],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    code, err = failure("serve", *arguments)
    assert code == 2 and "usage:" in err
