"""Taking the state of a project. Files that did not change since the last time are not read again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import AgentError, CheckpointError, WorkspaceError
from ..workspace.root import Root, read_at
from ..workspace.scan import Found, scan
from .manifest import Entry, Manifest, State
from .store import Store

RACY_NS = 2_000_000_000
"""A file changed this shortly before it was read may change again within one tick of its clock."""

Mark = tuple[int, int, int, int, str]
"""Size, mtime, ctime (ns) and inode of a file, and the digest that it had then."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a checkpoint takes in. What is beyond is left alone; a project beyond is refused."""

    file_bytes: int = 8 << 20
    tracked_file_bytes: int = 64 << 20
    """For a file that was within ``file_bytes`` when the turn began."""
    paths: int = 100_000
    total_bytes: int = 1 << 30


class Cache:
    """What is known of files by their times; lost or damaged, it is made anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks: dict[bytes, Mark] = {}
        self._fresh: dict[bytes, Mark] = {}
        with contextlib.suppress(OSError, msgspec.DecodeError):
            self._marks = msgspec.msgpack.decode(path.read_bytes(), type=dict[bytes, Mark])

    def get(self, path: str, found: os.stat_result) -> str | None:
        """The digest of a file that looks as it did; None if it must be read."""
        key = os.fsencode(path)
        mark = self._marks.get(key)
        if mark is None or mark[:4] != (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino):
            return None
        self._fresh[key] = mark
        return mark[4]

    def put(self, path: str, found: os.stat_result, digest: str, read_at: int) -> None:
        """Remember a file that was read at ``read_at`` (ns)."""
        if max(found.st_mtime_ns, found.st_ctime_ns) < read_at - RACY_NS:
            times = found.st_mtime_ns, found.st_ctime_ns
            self._fresh[os.fsencode(path)] = (found.st_size, *times, found.st_ino, digest)

    def save(self) -> None:
        """Write down what was seen since it was opened."""
        self._marks, self._fresh = self._fresh, {}
        half = self._path.with_suffix(f".{os.getpid()}.tmp")
        half.write_bytes(msgspec.msgpack.encode(self._marks))
        half.replace(self._path)


def take(root: Root, store: Store, cache: Cache, limits: Limits, base: Manifest | None = None) -> Manifest:
    """The state of the project now, with all contents in the store.

    With ``base``, what was ours then is ours now whatever the ignore rules have become, and what was
    unknown then still is. Raises `CheckpointError` for a project beyond the limits.
    """
    taken = Manifest(extra=set(base.extra) if base else set())
    total = 0
    for found in scan(root):
        if found.kind == "ignored" or found.kind == "other" or (base and not base.knows(found.path)):
            taken.unknown.add(found.path)
            continue
        limit = limits.tracked_file_bytes if base and found.path in base.entries else limits.file_bytes
        entry = _entry(found, store, cache, limit)
        if entry is None:
            taken.unknown.add(found.path)
            continue
        taken.entries[found.path] = entry
        total += found.stat.st_size if found.stat and entry.kind == "file" else 0
        if len(taken.entries) > limits.paths or total > limits.total_bytes:
            raise CheckpointError(
                f"the project is too large for checkpoints ({len(taken.entries):,} paths, "
                f"{total >> 20:,} MiB): name what is not source in .gitignore"
            )
    for path in sorted((base.entries.keys() | base.extra) - taken.entries.keys() if base else ()):
        state = now(root, path, store.put, limits.tracked_file_bytes)
        if state is not None:
            taken.entries[path] = state
            taken.unknown.discard(path)
    cache.save()
    return taken


def now(root: Root, path: str, keep: Callable[[bytes], str], limit: int) -> State:
    """What is at ``path``; a file above ``limit`` has an empty digest, which equals no other.

    ``keep`` is given the content and answers its digest.
    """
    try:
        found = root.lstat(path)
        if found is None:
            return None
        if stat.S_ISDIR(found.st_mode):
            return Entry("folder", stat.S_IMODE(found.st_mode))
        with root.parent(path) as (fd, name):
            if stat.S_ISLNK(found.st_mode):
                return Entry("link", 0, keep(os.fsencode(os.readlink(name, dir_fd=fd))))
            if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
                data, mode = read_at(fd, name, path, limit)
                return Entry("file", mode, keep(data))
    except WorkspaceError:
        return None
    return Entry("file", stat.S_IMODE(found.st_mode))


def digest_only(data: bytes) -> str:
    """The name that a content would have in the store."""
    return hashlib.sha256(data).hexdigest()


def _entry(found: Found, store: Store, cache: Cache, limit: int) -> Entry | None:
    """The entry of one thing, its content stored; None if it is too large or cannot be read."""
    assert found.stat is not None
    mode = stat.S_IMODE(found.stat.st_mode)
    if found.kind == "folder":
        return Entry("folder", mode)
    try:
        if found.kind == "link":
            return Entry("link", 0, store.put(os.fsencode(os.readlink(found.name, dir_fd=found.folder))))
        known = cache.get(found.path, found.stat)
        if known is not None and store.has(known):
            return Entry("file", mode, known)
        read_time = time.time_ns()
        data, mode = read_at(found.folder, found.name, found.path, limit)
    except (OSError, AgentError):
        return None
    digest = store.put(data)
    cache.put(found.path, found.stat, digest, read_time)
    return Entry("file", mode, digest)
