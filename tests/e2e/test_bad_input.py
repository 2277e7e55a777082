"""What a person gets for bad input: one clear line, an exit code above zero, nothing half-written."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import tiny_gguf
from e2e.conftest import Served, runtime_folder, runtime_info
from serving import ENVIRONMENT
from ultra_engine.weights.registry import TEST_MODEL

UNREACHABLE = "http://127.0.0.1:9"


def _run(module: str, arguments: Sequence[str], env: dict[str, str]) -> tuple[int, str]:
    """Exit code and stderr; stdout must stay empty."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == "" and "Traceback" not in done.stderr, done.stdout + done.stderr
    return done.returncode, done.stderr


def _refused(arguments: Sequence[str], words: str, env: dict[str, str] | None = None) -> None:
    """`ultra` says one line with ``words`` (a pattern) in it, and leaves nothing in the runtime folder."""
    if env is None:
        with runtime_folder() as (folder, own):
            _refused(arguments, words, own)
            assert {path.suffix for path in folder.iterdir()} <= {".lock"}
        return
    code, said = _run("ultra_engine", arguments, env)
    assert code == 1 and said.count("\n") == 1 and re.search(words, said), said


def _asked(arguments: Sequence[str], words: str, env: dict[str, str]) -> None:
    """`ultra-chat` says it in its last line."""
    code, said = _run("ultra_tui", arguments, env)
    assert code == 1 and re.search(words, said.splitlines()[-1]), said


@pytest.mark.parametrize("command", [["serve", "--model"], ["models", "pull"], ["models", "show"]])
def test_a_wrong_name_suggests_near_ones(command: list[str]) -> None:
    _refused([*command, "qwen2.5-coder-1.5"], "did you mean qwen2.5-coder-1.5b")


def test_a_truncated_file(tmp_path: Path) -> None:
    whole = tiny_gguf.write(tmp_path / "whole.gguf", "qwen2")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole.read_bytes()[:-1])
    _refused(["serve", "--model", str(cut)], "cut.gguf: truncated")
    with runtime_folder() as (folder, env):
        _asked(["--chat", "--model", str(cut), "-p", "hi"], "cut.gguf: truncated", env)
        assert not list(folder.glob("*.json")) and not list(folder.glob("*.sock"))


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("this is not a model, however long it is" * 9)
    _refused(["serve", "--model", str(tmp_path / "text.gguf")], "text.gguf: not a GGUF file")


def test_a_family_that_is_not_supported(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "m.gguf", "qwen2", architecture="gemma3")
    _refused(["serve", "--model", str(file)], "'gemma3' model; supported families: gpt_oss, llama, qwen2, ")


def test_a_tensor_that_is_missing(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "m.gguf", "qwen2", leave_out="blk.1.ffn_up.weight")
    _refused(["serve", "--model", str(file)], "no tensor blk.1.ffn_up.weight")


def test_a_tensor_of_another_shape(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "m.gguf", "qwen2", leave_out="blk.1.ffn_norm.weight", misshapen=True)
    _refused(["serve", "--model", str(file)], r"blk.1.ffn_norm.weight is \(7,\), the metadata says \(96,\)")


def test_no_network_and_no_cache(tmp_path: Path) -> None:
    env = ENVIRONMENT | {
        "ULTRA_CACHE": str(tmp_path),
        "HF_ENDPOINT": UNREACHABLE,
        "PIP_INDEX_URL": UNREACHABLE,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": "/dev/null",
    }
    code, said = _run("ultra_engine", ["models", "pull", TEST_MODEL], env)
    assert code == 1 and "not in the cache either" in said.splitlines()[-1]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]


def test_a_context_that_the_model_does_not_have(tmp_path: Path) -> None:
    file = tiny_gguf.write(tmp_path / "m.gguf", "llama")
    _refused(["serve", "--model", str(file), "--context", "513"], "context 513: .* takes 2 to 512 tokens")


def test_a_server_that_runs_already(served: Served) -> None:
    env = ENVIRONMENT | served.env
    _refused(["serve", "--model", TEST_MODEL], rf"already running \(pid {served.info.pid}\)", env)


def test_what_a_killed_server_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    """kill -9 leaves socket and runtime file; the next server takes their place."""
    file = tiny_gguf.write(tmp_path / "m.gguf", "qwen2")
    with runtime_folder() as (folder, env):
        pids = []
        for _ in range(2):
            process = subprocess.Popen(
                [sys.executable, "-m", "ultra_engine", "serve", "--model", str(file)],
                env=env,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert process.stdout and process.stdout.readline().startswith("serving ")
            pids.append(runtime_info(folder).pid)
            process.kill()
            process.communicate()
        assert pids[0] != pids[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--chat", "-p", "word " * 9000], r"prompt has \d{4,} tokens, the context takes at most 8191"),
        (["--chat", "-p", "hi", "--seed", "99999999999999999999"], "seed"),
    ],
)
def test_a_request_that_cannot_run(served: Served, arguments: list[str], words: str) -> None:
    _asked(arguments, words, ENVIRONMENT | served.env)


@pytest.mark.parametrize(
    "arguments",
    [["-p", ""], ["-p", "hi", "--temperature", "nan"], ["-p", "hi", "--max-tokens", "0"], ["--nonsense"]],
)
def test_wrong_usage(served: Served, arguments: list[str]) -> None:
    code, said = _run("ultra_tui", arguments, ENVIRONMENT | served.env)
    assert code == 64 and said.strip()


@pytest.fixture
def without_torch(tmp_path: Path) -> dict[str, str]:
    """An environment in which torch and gguf cannot be imported, as after `pip install ultra-chat` alone."""
    for name in ("torch", "gguf", "numpy"):
        text = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        (tmp_path / f"{name}.py").write_text(text)
    return ENVIRONMENT | {"PYTHONPATH": f"{tmp_path}:{ENVIRONMENT['PYTHONPATH']}"}


def test_the_engine_extra_is_missing(without_torch: dict[str, str]) -> None:
    words = r"pip install 'ultra-chat\[engine\]'"
    _refused(["serve"], words, without_torch)
    _refused(["models", "show", TEST_MODEL], words, without_torch)
    with runtime_folder() as (_, env):
        own = env | without_torch | {"ULTRA_RUNTIME_DIR": env["ULTRA_RUNTIME_DIR"]}
        code, said = _run("ultra_tui", ["--chat", "-p", "hi"], own)
        assert code == 1 and re.search(words, said), said
