"""One download against a server that fails in every way we know."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, serving
from tiny_models import payload
from ultra_engine.errors import DownloadError
from ultra_engine.weights import fetch
from ultra_engine.weights.fetch import DiskFull, disk_error, download

DATA = payload()
PATH = "/file"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setattr(fetch, "PAUSE_SECONDS", 0.01)
    with serving() as server:
        server.files[PATH] = DATA
        yield server


def get(server: FileServer, target: Path, path: str = PATH) -> list[int]:
    ticks: list[int] = []
    download(server.url + path, target, "thing", tick=ticks.append)
    return ticks


def test_a_whole_file(server: FileServer, tmp_path: Path) -> None:
    ticks = get(server, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == DATA
    assert ticks == sorted(ticks) and ticks[-1] == len(DATA)


def test_a_cut_connection_is_resumed_where_it_broke(server: FileServer, tmp_path: Path) -> None:
    server.faults[PATH] = [("cut", 100_000), ("cut", 50_000)]
    get(server, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == DATA
    assert server.ranges(PATH) == [None, "bytes=100000-", "bytes=150000-"]


def test_an_earlier_part_is_continued(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(DATA[:1234])
    get(server, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == DATA and server.ranges(PATH) == ["bytes=1234-"]


def test_a_complete_part_is_taken(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(DATA)
    assert get(server, tmp_path / "t") == [len(DATA)]


def test_a_part_that_is_too_long_starts_again(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(DATA + b"more")
    get(server, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == DATA


@pytest.mark.parametrize("fault", [("no_range",), ("lie",)])
def test_servers_that_do_not_resume(server: FileServer, tmp_path: Path, fault: tuple[object, ...]) -> None:
    (tmp_path / "t").write_bytes(DATA[:1234])
    server.faults[PATH] = [fault]
    get(server, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == DATA


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_asked_again(server: FileServer, tmp_path: Path, status: int) -> None:
    server.faults[PATH] = [("status", status)]
    get(server, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == DATA


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (("status", 404), r"thing: not there \(404\)"),
        (("status", 403), r"thing: access denied \(403\); a gated model needs HF_TOKEN"),
        (("status", 410), "thing: the server answered 410"),
    ],
)
def test_final_answers(server: FileServer, tmp_path: Path, fault: tuple[object, ...], reason: str) -> None:
    server.faults[PATH] = [fault]
    with pytest.raises(DownloadError, match=reason):
        get(server, tmp_path / "t")
    assert len(server.requests) == 1


def test_a_connection_that_keeps_breaking(server: FileServer, tmp_path: Path) -> None:
    server.faults[PATH] = [("cut", 1000)] + [("cut", 0)] * 20
    with pytest.raises(DownloadError, match="thing: the connection broke off .*start again to resume"):
        get(server, tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == DATA[:1000]


def test_nobody_there(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="thing: no connection"):
        download("http://127.0.0.1:1/x", tmp_path / "t", "thing", tick=lambda done: None)


def test_local_files(tmp_path: Path) -> None:
    """A wheel can lie in a folder that pip knows."""
    source = tmp_path / "a b.whl"
    source.write_bytes(DATA)
    download(source.as_uri(), tmp_path / "t", "thing", tick=lambda done: None)
    assert (tmp_path / "t").read_bytes() == DATA


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(server: FileServer) -> None:
    with pytest.raises(DiskFull, match="the disk is full .*ULTRA_CACHE"):
        get(server, Path("/dev/full"))


def test_words_for_disk_errors(tmp_path: Path) -> None:
    assert "cannot take a file of this size" in str(disk_error(OSError(errno.EFBIG, ""), tmp_path))
    denied = disk_error(OSError(errno.EACCES, "Permission denied"), tmp_path)
    assert not isinstance(denied, DiskFull) and "Permission denied" in str(denied)
