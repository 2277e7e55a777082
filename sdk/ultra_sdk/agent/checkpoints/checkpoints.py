"""Undo and redo of whole turns."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from ...protocol.runtime import private_dir
from ..errors import CheckpointError, Conflict
from ..folders import data_dir
from ..workspace.root import Root
from .history import History, Moving, Opened, SessionLock, Turn
from .manifest import Entry, Manifest, State, difference
from .pruning import prune
from .restore import conflicts, is_kept, restore
from .snapshot import Cache, Limits, now, take
from .store import Store

MAX_TURNS = 100
STORE_BYTES = 2 << 30
"""What all sessions of one project may keep; beyond, the oldest turns go."""


class Checkpoints:
    """The turns of one session in one project, kept in the user's data folder and never in the project's git.

    with Checkpoints("/home/me/project", "session-1") as checkpoints:
        with checkpoints.turn("make the tests pass"):
            subprocess.run("sed -i s/a/b/ *.py", shell=True, cwd="/home/me/project")
        checkpoints.undo()
        checkpoints.redo()

    A process killed in a turn leaves it open; the next one to open the session ends it, so that it can be
    undone. One killed in an undo leaves it to be finished in the same way.
    """

    def __init__(
        self, root: str | Path, session: str, *, folder: Path | None = None, limits: Limits | None = None
    ) -> None:
        self._root = Root(root)
        self._limits = limits or Limits()
        name = hashlib.sha256(str(self._root.path).encode("utf-8", "surrogateescape")).hexdigest()[:20]
        home = private_dir((folder or data_dir()) / "checkpoints" / name)
        sessions = private_dir(home / "sessions")
        if not session or "/" in session or session.startswith("."):
            raise CheckpointError(f"{session!r} cannot name a session")
        self._store = Store(home / "objects")
        self._cache = Cache(home / "times")
        self._path = sessions / f"{session}.json"
        self._lock = SessionLock(sessions / f"{session}.lock")
        try:
            self._history = History.load(self._path) or History(str(self._root.path))
            self._recover()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let another process open the session. An open turn stays open."""
        self._lock.close()

    @property
    def done(self) -> list[Turn]:
        """The turns that stand, oldest first: `undo` takes back the last."""
        return self._history.turns[: self._history.position]

    @property
    def undone(self) -> list[Turn]:
        """The turns that `redo` would bring back, the next one first."""
        return self._history.turns[self._history.position :]

    @contextlib.contextmanager
    def turn(self, label: str) -> Iterator[None]:
        """`begin` and `end` around a block, `end` also when it fails."""
        self.begin(label)
        try:
            yield
        finally:
            self.end()

    def begin(self, label: str) -> None:
        """Take the state before a turn. Raises `CheckpointError` for a project that is too large."""
        if self._history.pending is not None:
            raise CheckpointError("the last turn has not ended")
        before = take(self._root, self._store, self._cache, self._limits)
        self._history.pending = Opened(label, before.save(self._store))
        self._save()

    def end(self) -> Turn | None:
        """Take the state after it; None if it changed nothing. Undone turns cannot come back then."""
        opened = self._history.pending
        if not isinstance(opened, Opened):
            raise CheckpointError("no turn has begun")
        before = Manifest.load(self._store, opened.before)
        after = take(self._root, self._store, self._cache, self._limits, before)
        turn = None
        if difference(before, after):
            turn = Turn(opened.label, time.time(), opened.before, after.save(self._store))
            self._history.turns = [*self.done, turn][-MAX_TURNS:]
            self._history.position = len(self._history.turns)
        self._history.pending = None
        self._save()
        if self._store.written > STORE_BYTES // 16:
            self._store.written = 0
            prune(self._store, self._path, self._history, STORE_BYTES)
        return turn

    def protect(self, path: str) -> None:
        """Take in a file that the agent is about to write, though it be ignored. Outside a turn, nothing."""
        opened = self._history.pending
        if not isinstance(opened, Opened):
            return
        before = Manifest.load(self._store, opened.before)
        if path in before.entries or path in before.extra:
            return
        state = now(self._root, path, self._store.put, self._limits.tracked_file_bytes)
        before.extra.add(path)
        if state is not None:
            before.entries[path] = state
        self._history.pending = Opened(opened.label, before.save(self._store))
        self._save()

    def changes(self, turn: Turn) -> dict[str, tuple[State, State]]:
        """What a turn did: for each path that differs, its state before and after."""
        return difference(Manifest.load(self._store, turn.before), Manifest.load(self._store, turn.after))

    def content(self, entry: Entry) -> bytes:
        """The bytes of a file, or the target of a link, as a turn found or left it."""
        return self._store.get(entry.digest)

    def undo(self) -> Turn:
        """Take back the last turn that stands.

        Raises `Conflict`, and changes nothing, if a file of the turn was changed since; `CheckpointError`
        if there is no turn.
        """
        if not self.done:
            raise CheckpointError("there is nothing to undo")
        turn = self.done[-1]
        self._move(Moving(turn.after, turn.before, self._history.position - 1))
        return turn

    def redo(self) -> Turn:
        """Bring back the turn that was undone last. Raises as `undo` does."""
        if not self.undone:
            raise CheckpointError("there is nothing to redo")
        turn = self.undone[0]
        self._move(Moving(turn.before, turn.after, self._history.position + 1))
        return turn

    def _move(self, move: Moving) -> None:
        if self._history.pending is not None:
            raise CheckpointError("a turn is open; end it first")
        expected, wanted = self._states(move)
        large = [path for path, entry in wanted.items() if entry is not None and not is_kept(entry)]
        if large:
            raise CheckpointError(f"{large[0]} was too large to be kept")
        if found := conflicts(self._root, wanted, expected, self._limits.tracked_file_bytes):
            raise Conflict(found)
        self._history.pending = move
        self._save()
        self._finish(move, wanted)

    def _finish(self, move: Moving, wanted: dict[str, State]) -> None:
        restore(self._root, self._store, wanted, self._limits.tracked_file_bytes)
        self._history.position = move.position
        self._history.pending = None
        self._save()

    def _states(self, move: Moving) -> tuple[dict[str, State], dict[str, State]]:
        source, target = (Manifest.load(self._store, name) for name in (move.source, move.target))
        pairs = difference(source, target)
        return {path: a for path, (a, _) in pairs.items()}, {path: b for path, (_, b) in pairs.items()}

    def _recover(self) -> None:
        """Finish what a killed process began."""
        pending = self._history.pending
        if pending is not None:
            self._root.sweep()
        if isinstance(pending, Opened):
            self.end()
        elif pending is not None:
            expected, wanted = self._states(pending)
            touched = conflicts(self._root, wanted, expected, self._limits.tracked_file_bytes, half=True)
            self._finish(pending, {path: entry for path, entry in wanted.items() if path not in touched})

    def _save(self) -> None:
        self._history.save(self._path)
