"""Keeping the store small: the oldest turns go first, then what no history names."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from ..errors import CheckpointError
from .history import History, SessionLock
from .manifest import Manifest
from .store import GRACE_SECONDS, Store

OLD_SECONDS = 30 * 86400.0
"""A session that nobody used for so long loses its turns first."""


def prune(store: Store, own: Path, history: History, limit: int, grace: float = GRACE_SECONDS) -> None:
    """Bring the store below ``limit`` bytes if dropping turns of ours and of old sessions can do it."""
    sizes = [store.size()]
    if sizes[0] <= limit:
        return
    for path in sorted(own.parent.glob("*.json"), key=lambda path: path.stat().st_mtime):
        if path != own and path.stat().st_mtime < time.time() - OLD_SECONDS:
            _forget(path)
    store.sweep(_live(store, own.parent), grace)
    while store.size() > limit and history.position > 1:
        # Half of the turns that stand: each sweep reads the whole store.
        dropped = history.position // 2
        history.turns = history.turns[dropped:]
        history.position -= dropped
        history.save(own)
        store.sweep(_live(store, own.parent), grace)


def _forget(path: Path) -> None:
    with contextlib.suppress(CheckpointError, OSError):
        lock = SessionLock(path.with_suffix(".lock"))
        path.unlink()
        lock.close()


def _live(store: Store, sessions: Path) -> set[str]:
    """Every digest that a history still needs."""
    live: set[str] = set()
    for path in sessions.glob("*.json"):
        history = History.load(path)
        for digest in history.manifests() if history else ():
            if digest not in live:
                live.add(digest)
                live |= {entry.digest for entry in Manifest.load(store, digest).entries.values()}
    return live
