"""A session's record: one JSON object a line, only ever added to, readable by its owner alone.

A process killed in a write leaves half a line at the end; whoever opens the file next cuts it off. Secrets
are replaced before they are written (`redact`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from .errors import AgentError
from .redact import Redactor


class TranscriptError(AgentError):
    """A record cannot be opened or written."""


class Transcript:
    """Records in the order in which they happened.

    with Transcript(path, Redactor.of(project)) as transcript:
        transcript.append({"type": "text", "text": "hello"})
        list(transcript.records())

    One process writes a file at a time.
    """

    def __init__(self, path: Path, redactor: Redactor | None = None) -> None:
        self.path = path
        self._redactor = redactor or Redactor({})
        self.torn = 0
        """Bytes of a half-written record that were cut off when it was opened."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd = os.open(
                path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600
            )
        except OSError as error:
            raise TranscriptError(f"the transcript {path} cannot be opened: {error.strerror}") from None
        try:
            os.fchmod(self._fd, 0o600)
            self._lock()
            self._mend()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, record: dict[str, Any]) -> None:
        """Write one record. Raises `TranscriptError` if it cannot be, such as on a full disk."""
        line = msgspec.json.encode(self._clean(record)) + b"\n"
        start = os.fstat(self._fd).st_size
        try:
            written = os.write(self._fd, line)
            while written < len(line):
                written += os.write(self._fd, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, start)  # so that the next record does not begin in this one
            raise TranscriptError(f"the transcript {self.path} cannot be written: {error.strerror}") from None

    def records(self) -> Iterator[dict[str, Any]]:
        """Every record so far. A line that cannot be read is passed over."""
        return read_records(self.path)

    def close(self) -> None:
        """Make sure that it is on the disk, and let it go."""
        with contextlib.suppress(OSError):
            os.fsync(self._fd)
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _lock(self) -> None:
        import fcntl

        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TranscriptError(f"the transcript {self.path} is open in another process") from None

    def _mend(self) -> None:
        """Cut off what follows the last complete record."""
        size = os.fstat(self._fd).st_size
        end = size
        while end > 0:
            start = max(end - 65536, 0)
            at = os.pread(self._fd, end - start, start).rfind(b"\n")
            if at >= 0:
                end = start + at + 1
                break
            end = start
        self.torn = size - end
        if self.torn:
            os.ftruncate(self._fd, end)

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            # Names of files need not be Unicode; here they are shown, not used.
            return self._redactor.redact(value).encode("utf-8", "backslashreplace").decode()
        if isinstance(value, dict):
            return {self._clean(key): self._clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(item) for item in value]
        return value


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, without opening it for writing; a torn last line is passed over."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        for line in file:
            try:
                record = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(record, dict) and line.endswith(b"\n"):
                yield record


def paired(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records that a model can be shown again: each call has its result.

    Records of type ``call`` and ``result`` are matched by their ``id``. A call whose process was killed gets
    a result that says so; a result without a call, or a second one, is left out.
    """
    answered: dict[int, bool] = {}
    following: dict[Any, str] = {}
    for i in range(len(records) - 1, -1, -1):
        kind, name = records[i].get("type"), records[i].get("id")
        if kind in ("call", "result"):
            answered[i] = following.get(name) == "result"
            following[name] = kind
    out: list[dict[str, Any]] = []
    waiting: set[Any] = set()
    for i, record in enumerate(records):
        kind, name = record.get("type"), record.get("id")
        if kind == "result":
            if name not in waiting:
                continue
            waiting.discard(name)
        out.append(record)
        if kind == "call" and answered[i]:
            waiting.add(name)
        elif kind == "call":
            out.append({"type": "result", "id": name, "ok": False, "text": "interrupted: it did not finish"})
    return out
