"""The state of a project at one moment: what is at each path, by kind, mode and content hash."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ..errors import CheckpointError
from .store import Store

Kind = Literal["file", "link", "folder"]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What is at one path. ``digest`` names the file's bytes, or the link's target, in the store."""

    kind: Kind
    mode: int
    digest: str = ""


State = Entry | None
"""What is at a path, or None if nothing is."""


class _Form(msgspec.Struct, array_like=True):
    """How a manifest is stored. Paths are bytes: a name need not be UTF-8."""

    entries: list[tuple[bytes, Entry]]
    unknown: list[bytes]
    extra: list[bytes]


@dataclass
class Manifest:
    """Every path of the project that we answer for."""

    entries: dict[str, Entry] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    """Ignored, too large or unreadable things; a folder stands for all it holds. We never touch them."""
    extra: set[str] = field(default_factory=set)
    """Paths that the agent wrote itself: ours whatever the ignore rules say, be there a file or not."""

    def save(self, store: Store) -> str:
        """Keep the manifest itself in the store."""
        entries = [(os.fsencode(path), entry) for path, entry in sorted(self.entries.items())]
        unknown, extra = (
            [os.fsencode(path) for path in sorted(paths)] for paths in (self.unknown, self.extra)
        )
        return store.put(msgspec.msgpack.encode(_Form(entries, unknown, extra)))

    @classmethod
    def load(cls, store: Store, digest: str) -> Manifest:
        """Raises `CheckpointError`."""
        try:
            form = msgspec.msgpack.decode(store.get(digest), type=_Form)
        except msgspec.DecodeError as error:
            raise CheckpointError(f"a checkpoint cannot be read: {error}") from None
        unknown, extra = ({os.fsdecode(path) for path in paths} for paths in (form.unknown, form.extra))
        return cls({os.fsdecode(path): entry for path, entry in form.entries}, unknown, extra)

    def knows(self, path: str) -> bool:
        """Whether the path is ours: not under something unknown, or written by the agent."""
        if path in self.extra:
            return True
        parts = path.split("/")
        return not any("/".join(parts[: i + 1]) in self.unknown for i in range(len(parts)))


def difference(before: Manifest, after: Manifest) -> dict[str, tuple[State, State]]:
    """The paths whose state differs, each with its two states."""
    paths = before.entries.keys() | after.entries.keys()
    pairs = {path: (before.entries.get(path), after.entries.get(path)) for path in sorted(paths)}
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}
