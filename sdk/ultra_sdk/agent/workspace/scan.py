"""Walking the project: every file that is part of its work, in a fixed order, links never followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from ..errors import AgentError
from .ignore import Ignore
from .root import FOLDER, NOFOLLOW, TEMPORARY, Root, read_at

MAX_DEPTH = 100
MAX_RULES_BYTES = 1 << 20
CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
"""How a CACHEDIR.TAG begins (bford.info/cachedir): the folder holds what can be made again."""

Kind = Literal["file", "folder", "link", "other", "ignored"]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing in the project. ``folder`` is an open descriptor of where it lies, until the next step."""

    path: str
    kind: Kind
    stat: os.stat_result | None
    folder: int

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]


def scan(root: Root, start: str = ".") -> Iterator[Found]:
    """Everything below ``start``: a folder before its content; an ignored one is named and not entered."""
    rules = Ignore().within("", _text(root, ".git/info/exclude"))
    above = "" if start == "." else start
    parts = above.split("/") if above else []
    for i in range(len(parts)):
        # The rules of the folders on the way down hold for it, too.
        folder = "/".join(parts[:i])
        rules = rules.within(folder, _text(root, f"{folder}/.gitignore" if folder else ".gitignore"))
    with root.parent(above + "/x" if above else "x") as (fd, _):
        yield from _walk(fd, os.listdir(fd), above, rules, 0)


def files(root: Root, start: str = ".") -> list[str]:
    """The paths of the regular files below ``start``, sorted; ``start`` itself if it is a file."""
    found = root.lstat(start) if start != "." else None
    if found is not None and stat.S_ISREG(found.st_mode):
        return [start]
    return sorted(each.path for each in scan(root, start) if each.kind == "file")


def _walk(fd: int, names: list[str], folder: str, rules: Ignore, depth: int) -> Iterator[Found]:
    if ".gitignore" in names:
        rules = rules.within(folder, _at(fd, ".gitignore").decode("utf-8", "surrogateescape"))
    for name in sorted(names):
        if name.startswith(TEMPORARY) and name.endswith(".tmp"):
            continue
        path = f"{folder}/{name}" if folder else name
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue
        is_folder = stat.S_ISDIR(found.st_mode)
        if rules.ignores(path, is_folder):
            yield Found(path, "ignored", found, fd)
        elif not is_folder:
            yield Found(path, _kind(found.st_mode), found, fd)
        else:
            yield from _inside(Found(path, "folder", found, fd), rules, depth + 1)


def _inside(found: Found, rules: Ignore, depth: int) -> Iterator[Found]:
    """A folder and what it holds. One that cannot be read, or calls itself a cache, counts as ignored."""
    try:
        inner = os.open(found.name, FOLDER | NOFOLLOW, dir_fd=found.folder)
    except OSError:
        yield replace(found, kind="ignored")
        return
    try:
        names = os.listdir(inner)
        if depth > MAX_DEPTH or (
            "CACHEDIR.TAG" in names and _at(inner, "CACHEDIR.TAG").startswith(CACHE_TAG)
        ):
            yield replace(found, kind="ignored")
        else:
            yield found
            yield from _walk(inner, names, found.path, rules, depth)
    finally:
        os.close(inner)


def _kind(mode: int) -> Kind:
    return "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else "other"


def _at(fd: int, name: str) -> bytes:
    try:
        return read_at(fd, name, name, MAX_RULES_BYTES)[0]
    except AgentError:
        return b""


def _text(root: Root, path: str) -> str:
    try:
        return root.read(path, MAX_RULES_BYTES)[0].decode("utf-8", "surrogateescape")
    except AgentError:
        return ""
