"""What a folder holds, as one value that tests compare."""

from __future__ import annotations

import os
import stat
from pathlib import Path

Tree = dict[str, tuple[str, int, bytes]]


def tree(folder: Path, *, without: tuple[str, ...] = ()) -> Tree:
    """Every path below ``folder`` with its kind, permission bits and content or target."""
    found: Tree = {}
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in without]
        for name in folders + names:
            path = Path(top, name)
            mode = path.lstat().st_mode
            key, bits = str(path.relative_to(folder)), stat.S_IMODE(mode)
            if stat.S_ISLNK(mode):
                found[key] = ("link", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(mode):
                found[key] = ("folder", bits, b"")
            else:
                found[key] = ("file", bits, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found
