"""Reading and changing the project's text files: what changed since it was read is not overwritten."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from ..errors import AgentError, NoSuchFile, NotText, OutsideWorkspace, ProtectedPath, Stale, Unread
from .root import Root
from .text import Text, Undecodable, Unencodable

MAX_BYTES = 8 << 20
SHOWN = 20
"""How many lines an error about a changed file quotes."""
MAX_COMPARED = 2000
PROTECTED = frozenset({".git", ".hg", ".svn", ".jj"})
"""Folders of version control: their hooks and configuration run with the user's rights."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A file as it was read."""

    path: str
    text: Text
    digest: str
    mode: int


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one file. ``before`` is None for a new file, ``after`` for a removed one."""

    path: str
    before: Text | None
    after: Text | None

    @property
    def changed(self) -> bool:
        """Whether any byte differs."""
        return self.before != self.after


class Workspace:
    """The files of one project.

    files = Workspace("/home/me/project")
    seen = files.read("main.py")
    files.write("main.py", seen.text.content.replace("1", "2"))

    ``scratch`` is a second folder that may be read, such as the one where long outputs are kept.
    ``before_write`` is told the path of each file just before it is changed.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        scratch: str | Path | None = None,
        max_bytes: int = MAX_BYTES,
        before_write: Callable[[str], None] | None = None,
    ) -> None:
        self.root = Root(root)
        self.scratch = Root(scratch) if scratch is not None else None
        self.max_bytes = max_bytes
        self.before_write = before_write
        self._seen: dict[str, tuple[str, Text]] = {}
        self._lock = threading.Lock()

    def read(self, name: str) -> Reading:
        """The file's text; from now on it counts as read.

        Raises `NoSuchFile`, `NotText`, `TooLarge`, `OutsideWorkspace`.
        """
        try:
            path = self.root.locate(name)
        except OutsideWorkspace:
            if self.scratch is None:
                raise
            return self._load(self.scratch, self.scratch.locate(name))
        reading = self._load(self.root, path)
        self._seen[path] = (reading.digest, reading.text)
        return reading

    def peek(self, name: str) -> Reading | None:
        """The same without counting as read; None if there is no such file."""
        try:
            return self._load(self.root, self.root.locate(name))
        except NoSuchFile:
            return None

    def content(self, name: str) -> str | None:
        """The same as text alone; None also for what cannot be read as text."""
        try:
            reading = self.peek(name)
        except AgentError:
            return None
        return reading.text.content if reading is not None else None

    def writable(self, name: str) -> str:
        """The path of a file that may be changed. Raises `ProtectedPath`, `OutsideWorkspace`."""
        path = self.root.locate(name)
        if any(part.lower() in PROTECTED for part in path.split("/")):
            raise ProtectedPath(name, "belongs to version control and is not edited")
        return path

    def has_read(self, path: str) -> bool:
        """Whether the agent has read, or written, the file."""
        return path in self._seen

    def expect_fresh(self, name: str, reading: Reading) -> None:
        """Raises `Stale`, with what changed, if the agent has read the file and it is not what it read."""
        seen = self._seen.get(reading.path)
        if seen is not None and seen[0] != reading.digest:
            said = "changed since it was read; read it again, then edit"
            raise Stale(name, f"{said}. What changed:\n{_difference(seen[1], reading.text)}")

    def write(self, name: str, content: str) -> Change:
        """Make ``content`` (lines end in ``\\n``) the file's text, all else of it preserved.

        An existing file must have been read, and be as it was read. Raises `Unread`, `Stale`, `NotText`.
        """
        path = self.writable(name)
        reading = self.peek(path)
        if reading is not None:
            if path not in self._seen:
                raise Unread(name, "exists; read it before you overwrite it")
            self.expect_fresh(name, reading)
        return self.replace(name, reading, content)

    def replace(self, name: str, base: Reading | None, content: str | None) -> Change:
        """Change the file from ``base`` (None: it must not exist) to ``content`` (None: remove it).

        Raises `Stale` if it is no longer ``base``, `ProtectedPath` if its mode forbids writing.
        """
        path = self.writable(name)
        if base is not None and not base.mode & 0o200:
            raise ProtectedPath(name, f"is write-protected (mode {base.mode:o})")
        before = base.text if base is not None else None
        after = self._after(name, base, content)
        with self._lock:
            if before == after:
                return Change(path, before, after)
            if self.before_write is not None:
                self.before_write(path)
            self._expect(name, path, base)
            self._store(name, path, after, base)
        return Change(path, before, after)

    def change(self, name: str, base: Reading | None, content: str | None) -> Change:
        """What `replace` would make of it; nothing is written."""
        path = self.writable(name)
        return Change(path, base.text if base is not None else None, self._after(name, base, content))

    def revert(self, change: Change) -> None:
        """Put back what was there before a change. Raises `Stale` if the file is not what the change made."""
        if not change.changed:
            return
        now = self.peek(change.path)
        if (now.text if now is not None else None) != change.after:
            raise Stale(change.path, "changed since")
        with self._lock:
            self._expect(change.path, change.path, now)
            self._store(change.path, change.path, change.before, now)

    def _after(self, name: str, base: Reading | None, content: str | None) -> Text | None:
        if content is None:
            return None
        try:
            return (base.text if base is not None else Text()).with_content(content)
        except Unencodable as error:
            raise NotText(name, str(error)) from None

    def _expect(self, name: str, path: str, base: Reading | None) -> None:
        """The last look before the write; what is written between this and the rename is lost."""
        found = self.root.lstat(path)
        if base is None:
            if found is not None:
                raise Stale(name, "was created in the meantime; read it first")
            return
        digest = _digest(self.root.read(path, self.max_bytes)[0]) if found is not None else None
        if digest != base.digest:
            raise Stale(name, "changed while it was being edited; read it again")

    def _store(self, name: str, path: str, after: Text | None, base: Reading | None) -> None:
        if after is None:
            self.root.unlink(path)
            self._seen.pop(path, None)
            return
        data = after.encode()
        try:
            self.root.write(path, data, base.mode if base is not None else None, new=base is None)
        except FileExistsError:
            raise Stale(name, "was created in the meantime; read it first") from None
        self._seen[path] = (_digest(data), after)

    def _load(self, root: Root, path: str) -> Reading:
        data, mode = root.read(path, self.max_bytes)
        try:
            return Reading(path, Text.decode(data), _digest(data), mode)
        except Undecodable as error:
            raise NotText(path, str(error)) from None


def _difference(old: Text, new: Text) -> str:
    """The lines that differ, at most `SHOWN` of them."""
    if old.content == new.content:
        return "only line endings or the encoding"
    # Only the heads of long files are compared: that takes no noticeable time.
    before, after = old.lines[:MAX_COMPARED], new.lines[:MAX_COMPARED]
    lines = list(unified_diff(before, after, n=1, lineterm=""))[2:]
    if not lines:
        return f"something below line {MAX_COMPARED:,}"
    return "\n".join(lines[:SHOWN]) + ("\n..." if len(lines) > SHOWN else "")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
