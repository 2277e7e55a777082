"""Folders that conversions write to: whose they are, and what is left of one that was stopped."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from filelock import FileLock
from serving import ENVIRONMENT
from ultra_engine.convert.convert import Conversion, Result
from ultra_engine.errors import ConversionError

from .test_convert import EXPERTS, contents, convert

SHARD = 60_000
CHILD = Path(__file__).parents[2] / "convert_child.py"


def child(source: Path, folder: Path, **given: object) -> subprocess.CompletedProcess[str]:
    options = json.dumps({"shard": "60000", **given})
    command = [sys.executable, str(CHILD), str(source), str(folder), options]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120)


@pytest.fixture(scope="module")
def whole(moe: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an undisturbed run writes."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    convert(moe, folder, shard_bytes=SHARD)
    return contents(folder)


@pytest.fixture(scope="module")
def killed(moe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a run leaves that was killed half way."""
    folder = tmp_path_factory.mktemp("killed") / "out"
    assert child(moe, folder, harm="kill", at=200_000).returncode == -9
    return folder


@pytest.mark.parametrize("at", [0.02, 0.9])
def test_killed_and_resumed_the_bytes_are_the_same(
    moe: Path, tmp_path: Path, whole: dict[str, bytes], at: float
) -> None:
    folder = tmp_path / "out"
    total = sum(len(data) for name, data in whole.items() if name.startswith("model-"))
    done = child(moe, folder, harm="kill", at=int(total * at))
    assert done.returncode == -9
    left = contents(folder)
    assert "model.safetensors.index.json" not in left and "config.json" not in left
    assert any(name.endswith(".partial") for name in left)
    finished = [name for name in left if name.startswith("model-")]
    assert all(left[name] == whole[name] for name in finished)
    with Conversion(moe, folder, EXPERTS, shard_bytes=SHARD) as conversion:
        result = conversion.run()
    assert result.resumed == len(finished)
    assert contents(folder) == whole


def test_interrupted_it_says_how_to_go_on(moe: Path, tmp_path: Path, whole: dict[str, bytes]) -> None:
    folder = tmp_path / "out"
    done = child(moe, folder, harm="interrupt", at=100_000)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "stopped; the same command goes on from here"
    assert not any(name.endswith(".partial") for name in contents(folder))
    assert child(moe, folder).returncode == 0
    assert contents(folder) == whole


def test_a_full_disk(moe: Path, tmp_path: Path, whole: dict[str, bytes]) -> None:
    """A limit on the size of files stands for it: what is written fails in the middle."""
    folder = tmp_path / "out"
    done = child(moe, folder, limit=50_000)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ultra: {folder} cannot be written: File too large; what is finished stays")
    assert not any(name.endswith(".partial") for name in contents(folder))
    convert(moe, folder, shard_bytes=SHARD)
    assert contents(folder) == whole


def test_too_little_room_is_seen_before(moe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1000))
    with pytest.raises(ConversionError, match=r"needs .* of disk, 1\.00 kB are free: free some"):
        convert(moe, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_file_is_made_again(
    moe: Path, tmp_path: Path, whole: dict[str, bytes], killed: Path
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(killed, folder)
    first = folder / next(name for name in whole if name.startswith("model-00001"))
    first.write_bytes(first.read_bytes()[:-1])
    convert(moe, folder, shard_bytes=SHARD)
    assert contents(folder) == whole


def run(source: Path, folder: Path, **options: object) -> Result:
    return convert(source, folder, shard_bytes=SHARD, **options)


def test_what_is_done_is_not_done_again(moe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    first = run(moe, folder)
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    again = run(moe, folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == times
    assert again.losses.rows() == first.losses.rows()
    with pytest.raises(ConversionError, match="is not empty"):
        run(moe, folder, scale="max")


def test_a_folder_of_somebody_else(moe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    run(moe, folder)  # an empty one may be used
    other = tmp_path / "photos"
    other.mkdir()
    (other / "one.jpg").write_bytes(b"x")
    with pytest.raises(ConversionError, match="photos is not empty: choose a folder that is new"):
        run(moe, other)
    assert contents(other) == {"one.jpg": b"x"}


def test_an_unfinished_one_with_other_options(moe: Path, killed: Path) -> None:
    left = contents(killed)
    with pytest.raises(
        ConversionError, match="unfinished conversion of another model, or with other options"
    ):
        run(moe, killed, scale="max")
    assert contents(killed) == left


def test_one_at_a_time(moe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (folder / ".ultra-convert").mkdir(parents=True)
    with FileLock(folder / ".ultra-convert/lock"), pytest.raises(ConversionError, match="by another process"):
        run(moe, folder)


@pytest.mark.parametrize("inside", ["", "out"])
def test_not_into_the_source(moe: Path, inside: str) -> None:
    with pytest.raises(ConversionError, match="is in the model that is read"):
        run(moe, moe / inside)


def test_a_folder_that_cannot_be_made(moe: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConversionError, match="cannot be written: .*irectory"):
        run(moe, tmp_path / "file" / "out")
