"""The list of turns on the disk, replaced in one step: a killed process leaves the old or the new."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from ..errors import CheckpointError


class Turn(msgspec.Struct, frozen=True):
    """One turn of the agent that changed files. ``before`` and ``after`` name manifests in the store."""

    label: str
    at: float
    """When it ended, in seconds since 1970."""
    before: str
    after: str


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """A turn that has begun and not ended."""

    label: str
    before: str


class Moving(msgspec.Struct, frozen=True, tag="moving"):
    """An undo or redo that has begun and not ended."""

    source: str
    target: str
    position: int
    """The history's position when it is done."""


class History(msgspec.Struct):
    """The turns of a session; those from ``position`` on are undone."""

    root: str
    turns: list[Turn] = []
    position: int = 0
    pending: Opened | Moving | None = None

    def save(self, path: Path) -> None:
        """Write it to ``path``."""
        half = path.with_suffix(f".{os.getpid()}.tmp")
        with half.open("wb") as file:
            file.write(msgspec.json.encode(self))
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)

    @classmethod
    def load(cls, path: Path) -> History | None:
        """None if there is none yet. Raises `CheckpointError` for one that cannot be read."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise CheckpointError(f"the history {path} cannot be read ({error}); remove it") from None

    def manifests(self) -> set[str]:
        """Every manifest that it names."""
        named = {digest for turn in self.turns for digest in (turn.before, turn.after)}
        if isinstance(self.pending, Opened):
            named.add(self.pending.before)
        elif self.pending is not None:
            named |= {self.pending.source, self.pending.target}
        return named


class SessionLock:
    """Held by the one process that uses a session's history."""

    def __init__(self, path: Path) -> None:
        import fcntl

        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise CheckpointError(f"this session is open in another process (lock: {path})") from None

    def close(self) -> None:
        """Let others have the session."""
        with contextlib.suppress(OSError):
            os.close(self._fd)
