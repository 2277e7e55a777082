from __future__ import annotations

import os
from pathlib import Path

from ultra_sdk.agent.checkpoints.history import History, Turn
from ultra_sdk.agent.checkpoints.manifest import Entry, Manifest
from ultra_sdk.agent.checkpoints.pruning import prune
from ultra_sdk.agent.checkpoints.store import Store


def _session(store: Store, path: Path, turns: int) -> History:
    """Turns with 1,000 bytes of their own each."""
    path.parent.mkdir(exist_ok=True)
    history = History("/p")
    for i in range(turns):
        entry = Entry("file", 0o644, store.put(os.urandom(1000)))
        digest = Manifest({"a": entry}).save(store)
        history.turns.append(Turn(f"t{i}", 0.0, digest, digest))
    history.position = turns
    history.save(path)
    return history


def test_the_oldest_turns_go_until_the_store_is_small(tmp_path: Path) -> None:
    store, path = Store(tmp_path / "objects"), tmp_path / "sessions/s.json"
    history = _session(store, path, 16)
    prune(store, path, history, 100_000, grace=-1)
    assert len(history.turns) == 16
    prune(store, path, history, 5000, grace=-1)
    assert [turn.label for turn in history.turns] == ["t12", "t13", "t14", "t15"] and history.position == 4
    assert store.size() <= 5000 and History.load(path) == history
    for turn in history.turns:
        store.get(Manifest.load(store, turn.after).entries["a"].digest)
    prune(store, path, history, 0, grace=-1)
    assert len(history.turns) == 1  # the last turn can always be undone


def test_sessions_that_nobody_used_for_long_go_first(tmp_path: Path) -> None:
    store, own, old = (
        Store(tmp_path / "objects"),
        tmp_path / "sessions/s.json",
        tmp_path / "sessions/old.json",
    )
    _session(store, old, 8)
    os.utime(old, (0, 0))
    young = _session(store, tmp_path / "sessions/young.json", 1)
    history = _session(store, own, 2)
    prune(store, own, history, 9000, grace=-1)
    assert not old.exists() and len(history.turns) == 2
    assert store.has(Manifest.load(store, young.turns[0].after).entries["a"].digest)
