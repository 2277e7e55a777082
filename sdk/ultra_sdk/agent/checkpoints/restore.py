"""Bringing paths into a wanted state. Safe to be killed and run again: each step is seen on the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Mapping

from ..errors import NoSuchFile
from ..workspace.root import Root
from .manifest import Entry, State
from .snapshot import digest_only, now
from .store import Store


def conflicts(
    root: Root, wanted: Mapping[str, State], expected: Mapping[str, State], limit: int, *, half: bool = False
) -> list[str]:
    """The paths that are neither as expected nor as wanted already: somebody else changed them.

    With ``half``, after a `restore` that was killed: then a folder's mode may be one of those on the way.
    """
    found = []
    for path, entry in wanted.items():
        state = now(root, path, digest_only, limit)
        foreign = state not in (entry, expected[path])
        if half and state is not None and state.kind == "folder":
            foreign = False  # one that is to go is only removed if it is empty
        if state is not None and state.kind == "folder" and entry is not None and entry.kind != "folder":
            # A file must take the folder's place, so the folder may hold nothing that is not ours.
            inside = os.walk(root.path / path)
            names = (os.path.join(top, name) for top, folders, files in inside for name in folders + files)
            foreign |= any(os.path.relpath(name, root.path) not in wanted for name in names)
        if foreign:
            found.append(path)
    return found


def restore(root: Root, store: Store, wanted: Mapping[str, State], limit: int) -> None:
    """Make every path of ``wanted`` what it says. Folders that hold other things are kept.

    Contents are read before anything is touched, so a damaged store changes nothing.
    """
    contents = {e.digest: store.get(e.digest) for e in wanted.values() if e is not None and e.digest}
    states = {path: now(root, path, digest_only, limit) for path in wanted}
    steps = {path: wanted[path] for path in wanted if states[path] != wanted[path]}
    for path in sorted(steps):
        state = states[path]
        if state is not None and state.kind == "folder":
            _chmod(root, path, state.mode | stat.S_IRWXU)  # so that what is inside can be changed
    for path in sorted(steps, reverse=True):
        _remove(root, path, states[path], steps[path])
    for path in sorted(steps):
        _make(root, path, steps[path], contents)
    for path in sorted(steps, reverse=True):
        entry = steps[path]
        if entry is not None and entry.kind == "folder":
            _chmod(root, path, entry.mode)


def _remove(root: Root, path: str, state: State, wanted: State) -> None:
    """Take away what is in the way; a file is replaced in one step by `_make`."""
    if state is None or (wanted is not None and wanted.kind == state.kind != "link"):
        return
    with contextlib.suppress(NoSuchFile), root.parent(path) as (fd, name):
        if state.kind != "folder":
            os.unlink(name, dir_fd=fd)
            return
        try:
            os.rmdir(name, dir_fd=fd)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _make(root: Root, path: str, entry: State, contents: Mapping[str, bytes]) -> None:
    if entry is None:
        return
    if entry.kind == "file":
        root.write(path, contents[entry.digest], entry.mode)
        return
    with root.parent(path, create=True) as (fd, name), contextlib.suppress(FileExistsError):
        if entry.kind == "folder":
            os.mkdir(name, 0o700, dir_fd=fd)
        else:
            os.symlink(os.fsdecode(contents[entry.digest]), name, dir_fd=fd)


def _chmod(root: Root, path: str, mode: int) -> None:
    with contextlib.suppress(NoSuchFile), root.parent(path) as (fd, name):
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) != mode:
            os.chmod(name, mode, dir_fd=fd)


def is_kept(entry: Entry) -> bool:
    """Whether the store has the content of an entry."""
    return entry.kind == "folder" or bool(entry.digest)
