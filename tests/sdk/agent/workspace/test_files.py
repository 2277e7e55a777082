from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from ultra_sdk.agent.errors import (
    NoSuchFile,
    NotText,
    OutsideWorkspace,
    ProtectedPath,
    Stale,
    TooLarge,
    Unread,
)
from ultra_sdk.agent.workspace.files import Workspace


@pytest.fixture
def files(tmp_path: Path) -> Workspace:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.txt").write_text("one\ntwo\n")
    return Workspace(tmp_path / "p")


@pytest.mark.parametrize(
    ("bom", "end", "final", "mode"),
    list(itertools.product([b"", b"\xef\xbb\xbf"], ["\n", "\r\n"], [True, False], [0o644, 0o755])),
)
def test_bytes_are_preserved(files: Workspace, bom: bytes, end: str, final: bool, mode: int) -> None:
    path = files.root.path / "a.txt"
    path.write_bytes(bom + (f"one{end}two" + (end if final else "")).encode())
    path.chmod(mode)
    content = files.read("a.txt").text.content
    change = files.write("a.txt", content.replace("one", "ONE"))
    assert path.read_bytes() == bom + (f"ONE{end}two" + (end if final else "")).encode()
    assert path.stat().st_mode & 0o777 == mode and change.changed


def test_an_unread_file_is_not_overwritten(files: Workspace) -> None:
    with pytest.raises(Unread, match="read it before"):
        files.write("a.txt", "")
    files.read("./a.txt")
    assert files.write("a.txt", "new\n").after is not None
    assert files.write("a.txt", "newer\n").changed  # what we wrote ourselves counts as read


def test_a_file_changed_since_it_was_read_is_not_overwritten(files: Workspace) -> None:
    path = files.root.path / "a.txt"
    files.read("a.txt")
    path.write_text("somebody else\n")
    with pytest.raises(Stale, match="read it again") as caught:
        files.write("a.txt", "mine\n")
    assert str(caught.value).endswith("What changed:\n@@ -1,2 +1 @@\n-one\n-two\n+somebody else")
    assert path.read_text() == "somebody else\n"
    files.read("a.txt")
    files.write("a.txt", "mine\n")


def test_of_a_file_changed_in_many_places_little_is_quoted(files: Workspace) -> None:
    path = files.root.path / "a.txt"
    path.write_text("".join(f"{i}\n" for i in range(9000)))
    files.read("a.txt")
    path.write_text("".join(f"{i * 2}\n" for i in range(9000)))
    with pytest.raises(Stale) as caught:
        files.write("a.txt", "mine\n")
    assert str(caught.value).count("\n") == 21
    path.write_text("".join(f"{i}\n" for i in range(8000)))
    with pytest.raises(Stale, match="below line 2,000"):
        files.write("a.txt", "mine\n")
    path.write_bytes(b"".join(b"%d\r\n" % i for i in range(9000)))
    with pytest.raises(Stale, match="only line endings"):
        files.write("a.txt", "mine\n")


def test_the_same_content_saved_again_is_no_change(files: Workspace) -> None:
    files.read("a.txt")
    (files.root.path / "a.txt").write_text("one\ntwo\n")  # a new mtime, and the same bytes
    files.write("a.txt", "mine\n")
    inode = (files.root.path / "a.txt").stat().st_ino
    assert not files.write("a.txt", "mine\n").changed
    assert (files.root.path / "a.txt").stat().st_ino == inode


def test_a_save_between_reading_and_writing_wins(files: Workspace) -> None:
    path = files.root.path / "a.txt"
    files.before_write = lambda _: path.write_text("just saved\n") and None
    base = files.read("a.txt")
    with pytest.raises(Stale, match="while it was being edited"):
        files.replace("a.txt", base, "mine\n")
    files.before_write = lambda _: (files.root.path / "new.txt").write_text("just made\n") and None
    with pytest.raises(Stale, match="created in the meantime"):
        files.replace("new.txt", None, "mine\n")
    assert path.read_text() == "just saved\n" and (path.parent / "new.txt").read_text() == "just made\n"


def test_new_files_and_removed_ones(files: Workspace) -> None:
    told: list[str] = []
    files.before_write = told.append
    change = files.write("new/deep.txt", "x\n")
    assert change.before is None and (files.root.path / "new/deep.txt").read_text() == "x\n"
    files.replace("new/deep.txt", files.read("new/deep.txt"), None)
    assert not (files.root.path / "new/deep.txt").exists() and told == ["new/deep.txt"] * 2
    files.write("new/deep.txt", "again\n")


def test_version_control_is_not_written(files: Workspace) -> None:
    (files.root.path / ".git/hooks").mkdir(parents=True)
    (files.root.path / "sub").symlink_to(".git/hooks")
    for name in (".git/config", ".GIT/config", "x/.git/hooks/pre-commit", "sub/pre-commit", ".git"):
        with pytest.raises(ProtectedPath):
            files.write(name, "x")
    files.write(".gitignore", "x\n")


def test_a_write_protected_file_stays(files: Workspace) -> None:
    files.read("a.txt")
    (files.root.path / "a.txt").chmod(0o444)
    with pytest.raises(ProtectedPath, match="mode 444"):
        files.write("a.txt", "x")
    assert (files.root.path / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_keeps_its_owner(files: Workspace) -> None:
    os.chown(files.root.path / "a.txt", 1234, 2345)
    files.read("a.txt")
    files.write("a.txt", "new\n")
    found = (files.root.path / "a.txt").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 2345, 0o644)


def test_what_is_no_text_is_refused(files: Workspace) -> None:
    (files.root.path / "b").write_bytes(b"\0")
    with pytest.raises(NotText, match="b: is binary"):
        files.read("b")
    (files.root.path / "latin").write_bytes(b"\xe9\n")
    files.read("latin")
    with pytest.raises(NotText, match="not known"):
        files.write("latin", "\u00fc\n")
    small = Workspace(files.root.path, max_bytes=3)
    with pytest.raises(TooLarge):
        small.read("a.txt")


def test_a_scratch_folder_is_read_and_not_written(files: Workspace, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s/out").write_text("long\n")
    both = Workspace(files.root.path, scratch=tmp_path / "s")
    assert both.read(str(tmp_path / "s/out")).text.content == "long\n"
    with pytest.raises(OutsideWorkspace):
        both.write(str(tmp_path / "s/out"), "x")
    with pytest.raises(OutsideWorkspace):
        both.read(str(tmp_path / "other"))
    with pytest.raises(OutsideWorkspace):
        files.read(str(tmp_path / "s/out"))
    assert files.peek("none") is None
    with pytest.raises(NoSuchFile):
        files.read("none")
