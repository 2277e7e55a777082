"""Sessions of a project on the disk: where their transcripts lie, and which was the last."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from ..protocol.runtime import private_dir
from .folders import data_dir
from .transcript import TranscriptError, read_records

NAME = re.compile(r"[\w-]{1,64}")
TITLE_CHARS = 80


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session. ``at`` is when it was last written, in seconds since 1970."""

    id: str
    title: str
    """The first task."""
    at: float


class Sessions:
    """The sessions of one project.

    Sessions("/home/me/project").latest()   # "20261201-094501-3f9a"
    """

    def __init__(self, root: str | Path, data: Path | None = None) -> None:
        real = os.path.realpath(root)
        name = hashlib.sha256(os.fsencode(real)).hexdigest()[:20]
        self._folder = (data or data_dir()) / "sessions" / name

    def new(self) -> str:
        """A name that no session has; it sorts by time."""
        return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"

    def path(self, session: str) -> Path:
        """Where a session's transcript lies. Raises `TranscriptError` for what is no name."""
        if not NAME.fullmatch(session):
            raise TranscriptError(f"{session!r} is no session; `ultra-chat --resume` takes the last one")
        private_dir(self._folder)
        return self._folder / f"{session}.jsonl"

    def existing(self, session: str) -> Path:
        """The same for one that must be there. Raises `TranscriptError`."""
        path = self.path(session)
        if not path.is_file():
            known = ", ".join(info.id for info in self.list()[:5]) or "this project has none"
            raise TranscriptError(f"there is no session {session}; sessions: {known}")
        return path

    def latest(self) -> str | None:
        """The session that was written last; None if there is none."""
        found = self.list()
        return found[0].id if found else None

    def list(self) -> list[SessionInfo]:
        """All sessions in which something was asked, the latest first."""
        found = []
        for path in self._folder.glob("*.jsonl") if self._folder.is_dir() else ():
            title = next(
                (str(each.get("title", "")) for each in read_records(path) if each.get("task")), None
            )
            if title is not None:
                found.append(SessionInfo(path.stem, title[:TITLE_CHARS], path.stat().st_mtime))
        return sorted(found, key=lambda info: info.at, reverse=True)
