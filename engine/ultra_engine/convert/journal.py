"""The folder that a conversion writes to: whose it is, which files are finished, and that each is whole.

``.ultra-convert/`` in it has what was converted with which options (``job``), a note on each finished file
(its sum, and what rounding cost in it), and a lock. It goes when everything is done; what is half written is
removed and made again by the next run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from ..errors import ConversionError
from .layout import Shard

STATE = ".ultra-convert"
REPORT = "conversion.json"
PARTIAL = ".partial"
"""Ends the name of a file that is being written."""


def fingerprint(job: Mapping[str, object]) -> str:
    """One word for a model and options, however they are ordered."""
    return hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Note:
    """A finished file: what rounding cost in it (`report.Losses.plain`), and its sum."""

    losses: dict[str, list[float]]
    sha256: str


class Journal:
    """Use as a context manager; entering raises `ConversionError` if the folder is not ours to write to."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder, self._mark = folder, mark
        self._state = folder / STATE
        self._lock = FileLock(self._state / "lock")

    def finished(self) -> bool:
        """Whether the folder has the whole result already."""
        try:
            report = json.loads((self.folder / REPORT).read_bytes())
        except (OSError, ValueError):
            return False
        same = isinstance(report, dict) and report.get("fingerprint") == self._mark
        return same and not self._state.exists()

    def __enter__(self) -> Journal:
        job = self._state / "job"
        if self._state.is_dir():
            if job.exists() and job.read_text() != self._mark:
                raise ConversionError(
                    f"{self.folder} has an unfinished conversion of another model, or with other options: "
                    f"remove it, or choose another folder"
                )
        elif self.folder.exists() and any(self.folder.iterdir()):
            raise ConversionError(f"{self.folder} is not empty: choose a folder that is new")
        self._state.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ConversionError(f"{self.folder} is being written by another process") from None
        try:
            self.write(job, self._mark.encode())
            for half in list(self.folder.rglob(f".*{PARTIAL}")):
                half.unlink()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._lock.release()

    def note(self, shard: Shard) -> Note | None:
        """What was noted of a file; None if it is not finished."""
        try:
            if (self.folder / shard.name).stat().st_size != shard.bytes:
                return None
            found = json.loads((self._state / f"{shard.name}.json").read_bytes())
            return Note(found["losses"], found["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def finish(self, shard: Shard, fill: Callable[[BinaryIO], Note]) -> Note:
        """Have ``fill`` write a file; it gets its name when it is on the disk whole."""
        with _whole(self.folder / shard.name) as file:
            note = fill(file)
            content = {"losses": note.losses, "sha256": note.sha256}
            self.write(self._state / f"{shard.name}.json", json.dumps(content).encode())
        return note

    def write(self, path: Path, content: bytes) -> None:
        """A small file, whole or not at all."""
        with _whole(path) as file:
            file.write(content)

    def copy(self, source: Path, name: Path) -> None:
        """A file of the source, whole or not at all."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as reading, _whole(target) as file:
            shutil.copyfileobj(reading, file, 1 << 20)

    def close(self) -> None:
        """Everything is there."""
        self._lock.release()
        shutil.rmtree(self._state)


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file under another name, which becomes ``path`` when all of it is on the disk."""
    half = path.with_name(f".{path.name}{PARTIAL}")
    try:
        with half.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """So that the new name, too, is on the disk. Where folders cannot be opened there is no need."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
