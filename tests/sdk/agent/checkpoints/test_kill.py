"""A process killed with -9 at any moment leaves a session that can be opened and undone."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from forking import forked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tree import Tree, tree
from ultra_sdk.agent.checkpoints.checkpoints import Checkpoints

NAMES = st.sampled_from(["a", "b", "d/a", "d/b", "d/e/a"])
ACTION = st.tuples(st.sampled_from(["write", "remove", "rename", "chmod", "link", "folder"]), NAMES, NAMES)


def act(folder: Path, kind: str, first: str, second: str) -> None:
    """One random change; what cannot be done is not done."""
    path, other = folder / first, folder / second
    try:
        if kind == "remove":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif kind == "chmod":
            path.chmod(0o755 if path.is_dir() else 0o600)
        elif kind == "rename":
            path.rename(other)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "write":
                path.write_text(first + second)
            elif kind == "link":
                path.symlink_to(second)
            else:
                path.mkdir()
    except OSError:
        pass


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ACTION, max_size=6), st.lists(st.lists(ACTION, max_size=5), max_size=3))
def test_any_turns_are_undone_and_redone(
    tmp_path: Path, start: list[tuple[str, str, str]], turns: list[list[tuple[str, str, str]]]
) -> None:
    project = tmp_path / "p"
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir()
    for action in start:
        act(project, *action)
    states = [tree(project)]
    session = f"s{next(COUNTER)}"
    with Checkpoints(project, session, folder=tmp_path / "data") as checkpoints:
        for actions in turns:
            with checkpoints.turn("t"):
                for action in actions:
                    act(project, *action)
            if tree(project) != states[-1]:
                states.append(tree(project))
        assert len(checkpoints.done) == len(states) - 1
        for state in reversed(states[:-1]):
            checkpoints.undo()
            assert tree(project) == state
        for state in states[1:]:
            checkpoints.redo()
            assert tree(project) == state


COUNTER = itertools.count()


def _work(project: Path, data: Path) -> None:
    """Turns, undos and redos without end."""
    draw = random.Random(os.getpid())
    with Checkpoints(project, "s", folder=data) as checkpoints:
        for i in itertools.count():
            with checkpoints.turn(f"t{i}"):
                for name in draw.sample(["a", "b", "d/a", "d/e/f", "new"], 3):
                    path = project / name
                    if path.exists() and draw.random() < 0.4:
                        path.unlink()
                    else:
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_text(str(i))
            for _ in range(draw.randrange(3)):
                if checkpoints.done:
                    checkpoints.undo()
            if checkpoints.undone and draw.random() < 0.5:
                checkpoints.redo()


def _undo_all(project: Path, data: Path) -> Tree:
    with Checkpoints(project, "s", folder=data) as checkpoints:
        while checkpoints.done:
            checkpoints.undo()
    return tree(project)


@pytest.mark.parametrize("seed", range(10))
def test_killed_at_any_moment_everything_can_still_be_undone(tmp_path: Path, seed: int) -> None:
    project, data = tmp_path / "p", tmp_path / "data"
    (project / "d").mkdir(parents=True)
    (project / "a").write_text("first\n")
    (project / "d/a").write_text("first\n")
    before = tree(project)
    draw = random.Random(seed)
    for _ in range(3):
        child = forked(lambda: _work(project, data))
        time.sleep(draw.uniform(0.01, 0.15))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert _undo_all(project, data) == before
