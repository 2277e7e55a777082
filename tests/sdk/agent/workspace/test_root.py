from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from forking import forked
from ultra_sdk.agent.errors import NoSuchFile, OutsideWorkspace, TooLarge, WorkspaceError
from ultra_sdk.agent.workspace.root import TEMPORARY, Root

LIMIT = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Root:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/a.py").write_text("a\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret\n")
    return Root(project)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/../src/a.py", "src/a.py"),
        ("new/deep/file", "new/deep/file"),
        ("src/", "src"),
        (".", "."),
        ("../project/src", "src"),
        ("~", "~"),
        ("..a", "..a"),
    ],
)
def test_names_become_paths_inside(root: Root, name: str, path: str) -> None:
    assert root.locate(name) == path
    assert root.locate(str(root.path / name)) == path


@pytest.mark.parametrize(
    "name", ["..", "../outside/secret", "/etc/passwd", "src/../../outside", "", "a\0b", "/"]
)
def test_names_that_lead_out_are_refused(root: Root, name: str) -> None:
    with pytest.raises(OutsideWorkspace):
        root.locate(name)


def test_a_sibling_with_the_same_beginning_is_outside(root: Root) -> None:
    (root.path.parent / "project-2").mkdir()
    with pytest.raises(OutsideWorkspace):
        root.locate("../project-2/x")


def test_a_root_reached_by_a_link_is_the_real_one(root: Root) -> None:
    alias = root.path.parent / "alias"
    alias.symlink_to(root.path)
    assert Root(alias).locate(str(alias / "src/a.py")) == "src/a.py"


@pytest.mark.parametrize("target", ["../outside", "/etc", "../outside/secret", "../outside/not-there-yet"])
def test_links_that_lead_out_are_refused(root: Root, target: str) -> None:
    (root.path / "link").symlink_to(target)
    for name in ("link", "link/new", "link/secret", "src/../link/x"):
        with pytest.raises(OutsideWorkspace):
            root.locate(name)


def test_links_that_stay_inside_are_followed(root: Root) -> None:
    (root.path / "link").symlink_to("src")
    (root.path / "file").symlink_to("src/a.py")
    (root.path / "dangling").symlink_to("src/new.py")
    assert root.locate("link/a.py") == "src/a.py"
    assert root.locate("file") == "src/a.py"
    assert root.locate("dangling") == "src/new.py"


def test_a_loop_of_links_is_an_error(root: Root) -> None:
    (root.path / "a").symlink_to("b")
    (root.path / "b").symlink_to("a")
    with pytest.raises(WorkspaceError):
        root.read(root.locate("a"), LIMIT)
    with pytest.raises(WorkspaceError):
        root.write(root.locate("a/x"), b"")


def test_a_folder_swapped_for_a_link_after_the_check_is_not_followed(root: Root) -> None:
    path = root.locate("src/secret")
    (root.path / "src").rename(root.path / "moved")
    (root.path / "src").symlink_to("../outside")
    with pytest.raises(WorkspaceError):
        root.read(path, LIMIT)
    with pytest.raises(WorkspaceError):
        root.write(path, b"overwritten")
    assert (root.path.parent / "outside/secret").read_text() == "secret\n"


def test_a_file_swapped_for_a_link_is_replaced_and_not_written_through(root: Root) -> None:
    path = root.locate("src/a.py")
    (root.path / path).unlink()
    (root.path / path).symlink_to("../../outside/secret")
    with pytest.raises(OutsideWorkspace):
        root.read(path, LIMIT)
    root.write(path, b"mine")
    assert (root.path.parent / "outside/secret").read_text() == "secret\n"


def test_a_race_of_swaps_never_writes_outside(root: Root) -> None:
    source, stop = root.path / "src", threading.Event()

    def swap() -> None:
        while not stop.is_set():
            # The writer may make the folder anew: then a step fails, and the next round mends it.
            for step in (
                lambda: source.rename(root.path / "kept"),
                lambda: source.symlink_to("../outside"),
                source.unlink,
                lambda: shutil.rmtree(source),
                lambda: (root.path / "kept").rename(source),
            ):
                with contextlib.suppress(OSError):
                    step()

    racer = threading.Thread(target=swap)
    racer.start()
    done = refused = 0
    try:
        for _ in range(300):
            try:
                root.write(root.locate("src/secret"), b"overwritten")
                done += 1
            except WorkspaceError:
                refused += 1
    finally:
        stop.set()
        racer.join()
    assert (root.path.parent / "outside/secret").read_text() == "secret\n"
    assert os.listdir(root.path.parent / "outside") == ["secret"] and done + refused == 300


def test_reads_are_bounded_and_only_of_regular_files(root: Root) -> None:
    os.mkfifo(root.path / "fifo")
    with pytest.raises(WorkspaceError, match="not a regular file"):
        root.read("fifo", LIMIT)
    with pytest.raises(WorkspaceError, match="is a folder"):
        root.read("src", LIMIT)
    with pytest.raises(NoSuchFile):
        root.read("src/b.py", LIMIT)
    with pytest.raises(WorkspaceError, match="not a folder"):
        root.read("src/a.py/b", LIMIT)
    with pytest.raises(TooLarge):
        root.read("src/a.py", 1)
    assert root.read("src/a.py", 2)[0] == b"a\n"


def test_a_write_keeps_or_sets_the_mode_and_leaves_nothing_behind(root: Root) -> None:
    root.write("deep/er/run.sh", b"x", 0o750)
    assert (root.path / "deep/er/run.sh").stat().st_mode & 0o7777 == 0o750
    before = os.umask(0o027)
    try:
        root.write("new", b"")
    finally:
        os.umask(before)
    assert (root.path / "new").stat().st_mode & 0o777 == 0o640
    with pytest.raises(FileExistsError):
        root.write("new", b"again", new=True)
    assert (root.path / "new").read_bytes() == b""
    assert not [name for _, _, names in os.walk(root.path) for name in names if name.startswith(TEMPORARY)]


def test_a_write_killed_at_any_moment_leaves_the_old_or_the_new(root: Root) -> None:
    old, new = b"old" * 50_000, b"new" * 50_000
    (root.path / "big").write_bytes(old)
    seen = set()
    for delay in range(12):
        child = forked(lambda: [root.write("big", data) for data in itertools.cycle((new, old))])
        os.sched_yield()
        threading.Event().wait(delay / 1000)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen.add((root.path / "big").read_bytes())
    assert seen <= {old, new}
