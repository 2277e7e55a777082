from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ultra_sdk.protocol import runtime
from ultra_sdk.protocol.runtime import RuntimeInfo


def info(name: str = "m", pid: int | None = None, started: float = 1.0) -> RuntimeInfo:
    return RuntimeInfo(pid or os.getpid(), "token", "Model", name, 1, "0", started, unix="/x")


anything = st.text(max_size=400) | st.text("ab/.~0-_ ", max_size=80)


@given(anything.filter(lambda text: "\0" not in text))
@example("~nobody-of-this-name/x")
@example("ä" * 300)
def test_a_slug_is_a_short_plain_file_name(model: str) -> None:
    name = runtime.slug(model)
    assert 1 <= len(name) <= 48 and name.isascii() and name == name.lower()
    assert "/" not in name and not name.startswith((".", "-"))


def test_slugs_of_names_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runtime.slug("Qwen/Qwen2.5-Coder") == "qwen-qwen2.5-coder"
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.gguf").touch()
    assert runtime.slug("a/m.gguf") == runtime.slug(str(tmp_path / "a" / "m.gguf"))
    assert runtime.slug("a/m.gguf") != runtime.slug("b/m.gguf")
    assert runtime.canonical("a/m.gguf") == str(tmp_path / "a" / "m.gguf")
    assert runtime.canonical("qwen") == "qwen"


@pytest.mark.parametrize("length", [10, 80, 100, 200])
def test_a_socket_path_can_always_be_bound(length: int) -> None:
    path = runtime.socket_path("m" * 40, Path("/tmp/" + "d" * length))
    assert len(os.fsencode(path)) <= runtime.SOCKET_PATH_BYTES


def test_a_long_folder_gets_a_socket_that_works(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 120)
    path = runtime.socket_path("m", folder)
    runtime.private_dir(path.parent)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    path.unlink()
    assert path != runtime.socket_path("m", tmp_path / ("e" * 120))


def test_a_runtime_file_is_written_whole_and_private(runtime_folder: Path) -> None:
    path = runtime.write_info(info())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(runtime_folder.stat().st_mode) == 0o700
    assert runtime.read_info(path) == info()
    assert list(runtime_folder.iterdir()) == [path]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"pid": "x"}', "\0"])
def test_a_broken_runtime_file_is_no_server(runtime_folder: Path, content: str) -> None:
    runtime_folder.mkdir()
    (runtime_folder / "m.json").write_text(content)
    assert runtime.running() == []


def test_running_servers_newest_first(runtime_folder: Path) -> None:
    assert runtime.running() == []
    for name, started in (("old", 1.0), ("new", 2.0)):
        runtime.write_info(info(name, started=started))
    runtime.write_info(info("dead", pid=2**22 + 1, started=3.0))
    assert [found.name for found in runtime.running()] == ["new", "old"]
    assert [found.name for found in runtime.running("OLD")] == ["old"]
    assert [found.name for found in runtime.running("model")] == ["new", "old"]
    assert runtime.running("other") == []


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ULTRA_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert runtime.runtime_dir() == Path("/run/user/7/ultra")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime.runtime_dir().name == "run"


def test_somebody_elses_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(runtime.UnsafeFolder, match="belongs to another user"):
        runtime.private_dir(tmp_path)
