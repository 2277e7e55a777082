from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tree import tree
from ultra_sdk.agent.checkpoints.checkpoints import Checkpoints
from ultra_sdk.agent.checkpoints.snapshot import Limits
from ultra_sdk.agent.errors import CheckpointError, Conflict
from ultra_sdk.agent.workspace.files import Workspace


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/a.py").write_bytes(b"a = 1\r\n")
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "link").symlink_to("src/a.py")
    return project


@pytest.fixture
def checkpoints(project: Path, tmp_path: Path):
    with Checkpoints(project, "s", folder=tmp_path / "data") as opened:
        yield opened


def shell(project: Path, command: str) -> None:
    subprocess.run(["bash", "-ec", command], cwd=project, check=True)


COMMANDS = [
    "echo b > src/b.py",
    "echo b >> src/a.py",
    "rm src/a.py",
    "mv src/a.py src/b.py",
    "mv src lib",
    "chmod +x run.sh",
    "chmod 700 src",
    "chmod 555 src",
    "ln -sf run.sh link",
    "rm link; echo file > link",
    "rm link; mkdir link; echo x > link/x",
    "rm -r src; echo file > src",
    "rm -r src; ln -s /etc src",
    "mkdir -p deep/er/empty",
    "rm -rf -- * .[a-z]*; true",
    "ln -s nowhere dangling",
    "printf 'x\\0y' > binary",
    "touch $'new\\nline' 'sp ace' $'\\xff'",
    "mkdir empty; rmdir empty; echo again > run.sh",
    "ln run.sh hard; echo more >> hard",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_shell_command_did_is_undone_and_redone(
    project: Path, checkpoints: Checkpoints, command: str
) -> None:
    before = tree(project)
    with checkpoints.turn(command):
        shell(project, command)
    after = tree(project)
    assert checkpoints.undo().label == command and tree(project) == before
    assert checkpoints.redo().label == command and tree(project) == after
    checkpoints.undo()
    assert tree(project) == before


def test_turns_are_undone_one_by_one(project: Path, checkpoints: Checkpoints) -> None:
    states = [tree(project)]
    for i in range(4):
        with checkpoints.turn(f"turn {i}"):
            shell(project, f"echo {i} > src/a.py; echo {i} > new{i}")
        states.append(tree(project))
    for state in reversed(states[:-1]):
        checkpoints.undo()
        assert tree(project) == state
    with pytest.raises(CheckpointError, match="nothing to undo"):
        checkpoints.undo()
    for state in states[1:3]:
        checkpoints.redo()
        assert tree(project) == state
    assert [turn.label for turn in checkpoints.undone] == ["turn 2", "turn 3"]
    with checkpoints.turn("another way"):
        shell(project, "echo other > src/a.py")
    with pytest.raises(CheckpointError, match="nothing to redo"):
        checkpoints.redo()


def test_a_turn_that_changed_nothing_is_no_turn(project: Path, checkpoints: Checkpoints) -> None:
    with checkpoints.turn("touch"):
        shell(project, "touch run.sh; cp src/a.py x; rm x")
    assert checkpoints.done == []


def test_what_somebody_changed_since_is_never_overwritten(project: Path, checkpoints: Checkpoints) -> None:
    with checkpoints.turn("t"):
        shell(project, "echo 1 > run.sh; echo 1 > new; rm src/a.py")
    (project / "unrelated").write_text("user\n")
    (project / "new").write_text("user\n")
    state = tree(project)
    with pytest.raises(Conflict, match="new") as caught:
        checkpoints.undo()
    assert caught.value.paths == ("new",) and tree(project) == state
    (project / "new").unlink()  # as undo would have it
    checkpoints.undo()
    assert (project / "run.sh").read_text() == "#!/bin/sh\n" and (project / "unrelated").exists()


def test_edits_between_turns_belong_to_the_user(project: Path, checkpoints: Checkpoints) -> None:
    with checkpoints.turn("t"):
        shell(project, "echo 1 > run.sh")
    (project / "src/a.py").write_text("user\n")
    with checkpoints.turn("u"):
        shell(project, "echo 2 > run.sh")
    checkpoints.undo()
    checkpoints.undo()
    assert (project / "run.sh").read_text() == "#!/bin/sh\n"
    assert (project / "src/a.py").read_text() == "user\n"


def test_ignored_files_are_never_touched(project: Path, checkpoints: Checkpoints) -> None:
    (project / ".gitignore").write_text("*.env\nbuild/\n")
    (project / "my.env").write_text("SECRET=1\n")
    (project / "build").mkdir()
    (project / "build/out").write_text("x")
    with checkpoints.turn("make what was ignored visible"):
        shell(project, "rm .gitignore; echo 2 > build/out; rm src/a.py")
    checkpoints.undo()
    assert (project / "my.env").read_text() == "SECRET=1\n" and (project / "build/out").read_text() == "2\n"
    assert (project / "src/a.py").exists() and (project / ".gitignore").exists()
    with checkpoints.turn("ignore what was visible"):
        shell(project, "echo '*.py' > .gitignore; echo 2 > src/a.py")
    checkpoints.undo()
    assert (project / "src/a.py").read_bytes() == b"a = 1\r\n"


def test_an_ignored_file_that_the_agent_writes_is_protected(project: Path, checkpoints: Checkpoints) -> None:
    (project / ".gitignore").write_text("*.cfg\n")
    (project / "my.cfg").write_text("old\n")
    before = tree(project)
    files = Workspace(project, before_write=checkpoints.protect)
    with checkpoints.turn("t"):
        files.read("my.cfg")
        files.write("my.cfg", "new\n")
        files.write("other.cfg", "new\n")
    after = tree(project)
    checkpoints.undo()
    assert tree(project) == before
    checkpoints.redo()
    assert tree(project) == after


def test_large_files_are_left_alone(project: Path, tmp_path: Path) -> None:
    (project / "large").write_bytes(b"x" * 2000)
    limits = Limits(file_bytes=1000, tracked_file_bytes=1500)
    with Checkpoints(project, "large", folder=tmp_path / "data", limits=limits) as checkpoints:
        with checkpoints.turn("shrink"):
            shell(project, "echo small > large; echo 1 > run.sh")
        checkpoints.undo()
        assert (project / "large").read_text() == "small\n"  # not removed, though it looks new
        with checkpoints.turn("grow"):
            shell(project, "head -c 5000 /dev/zero > run.sh")
        checkpoints.undo()
        assert (project / "run.sh").read_text() == "#!/bin/sh\n"
        with pytest.raises(CheckpointError, match="too large to be kept"):
            checkpoints.redo()
    with (
        Checkpoints(project, "few", folder=tmp_path / "data", limits=Limits(paths=2)) as few,
        pytest.raises(CheckpointError, match="gitignore"),
    ):
        few.begin("t")


def test_git_is_not_touched(project: Path, checkpoints: Checkpoints) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    git = ["git", "-c", "user.name=u", "-c", "user.email=u@example.org"]
    for args in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["add", "run.sh"]):
        subprocess.run([*git, *args], cwd=project, env=env, check=True)
    (project / "run.sh").write_text("stashed\n")
    subprocess.run([*git, "stash", "-q"], cwd=project, env=env, check=True)
    before = tree(project / ".git")
    with checkpoints.turn("t"):
        shell(project, "echo 1 > run.sh; rm src/a.py")
    checkpoints.undo()
    checkpoints.redo()
    assert tree(project / ".git") == before


def test_one_process_has_a_session(project: Path, tmp_path: Path, checkpoints: Checkpoints) -> None:
    with pytest.raises(CheckpointError, match="another process"):
        Checkpoints(project, "s", folder=tmp_path / "data")
    with Checkpoints(project, "other", folder=tmp_path / "data") as other:
        assert other.done == []
    for name in ("", "a/b", "..", ".x"):
        with pytest.raises(CheckpointError, match="cannot name"):
            Checkpoints(project, name, folder=tmp_path / "data")


def test_a_session_is_opened_again_with_its_turns(project: Path, tmp_path: Path) -> None:
    before = tree(project)
    with Checkpoints(project, "again", folder=tmp_path / "data") as first, first.turn("t"):
        shell(project, "echo 1 > run.sh")
    with Checkpoints(project, "again", folder=tmp_path / "data") as second:
        assert [turn.label for turn in second.done] == ["t"]
        ((path, (old, new)),) = second.changes(second.done[0]).items()
        assert path == "run.sh" and old is not None and new is not None
        assert second.content(old) == b"#!/bin/sh\n" and second.content(new) == b"1\n"
        second.undo()
    assert tree(project) == before
    (home,) = (tmp_path / "data/checkpoints").iterdir()
    assert home.stat().st_mode & 0o777 == 0o700
    histories = list((tmp_path / "data").rglob("*.json"))
    histories[0].write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"):
        Checkpoints(project, "again", folder=tmp_path / "data")


def test_misuse_is_an_error(checkpoints: Checkpoints) -> None:
    with pytest.raises(CheckpointError, match="no turn has begun"):
        checkpoints.end()
    checkpoints.protect("x")  # outside a turn: nothing to do
    checkpoints.begin("t")
    with pytest.raises(CheckpointError, match="not ended"):
        checkpoints.begin("u")
