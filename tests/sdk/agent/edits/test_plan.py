from __future__ import annotations

from pathlib import Path

import pytest
from tree import tree
from ultra_sdk.agent.edits.plan import Plan, first_survivor
from ultra_sdk.agent.errors import (
    BadEdit,
    BreaksSyntax,
    NoMatch,
    NoSuchFile,
    Omission,
    OutsideWorkspace,
    Stale,
    Unread,
)
from ultra_sdk.agent.workspace.files import Workspace

BLOCK = "{path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


@pytest.fixture
def files(tmp_path: Path) -> Workspace:
    (tmp_path / "a.py").write_bytes(b"a = 1\r\nb = 2\r\n")
    (tmp_path / "b.py").write_text("c = 3")
    return Workspace(tmp_path)


def block(path: str, old: str, new: str) -> str:
    return BLOCK.format(path=path, old=old, new=new)


def test_blocks_of_several_files_are_applied_with_bytes_preserved(files: Workspace) -> None:
    plan = Plan(files)
    plan.blocks(
        block("a.py", "a = 1", "a = 10")
        + block("b.py", "c = 3", "c = 30")
        + block("a.py", "a = 10", "a = 11")
    )
    assert (files.root.path / "a.py").read_bytes() == b"a = 1\r\nb = 2\r\n"
    changes = plan.commit()
    assert [change.path for change in changes] == ["a.py", "b.py"]
    assert (files.root.path / "a.py").read_bytes() == b"a = 11\r\nb = 2\r\n"
    assert (files.root.path / "b.py").read_bytes() == b"c = 30"


def test_one_bad_block_and_nothing_is_changed(files: Workspace) -> None:
    before = tree(files.root.path)
    with pytest.raises(NoMatch, match=r"edit 2 of 2 \(none was applied\): SEARCH"):
        Plan(files).blocks(block("a.py", "a = 1", "a = 10") + block("b.py", "nothing", "c"))
    assert tree(files.root.path) == before


def test_a_write_that_fails_puts_back_what_was_written_before(files: Workspace) -> None:
    before = tree(files.root.path)
    plan = Plan(files)
    plan.whole("new.py", "x = 1\n")
    plan.blocks(block("a.py", "a = 1", "a = 10") + block("b.py", "c = 3", "c = 30"))
    (files.root.path / "b.py").write_text("somebody = 1")
    with pytest.raises(Stale):
        plan.commit()
    assert tree(files.root.path) == before | {"b.py": ("file", before["b.py"][1], b"somebody = 1")}


def test_code_that_would_not_parse_is_not_written(files: Workspace) -> None:
    plan = Plan(files)
    plan.replace("a.py", "a = 1", "a = (")
    with pytest.raises(BreaksSyntax, match=r"a.py would not parse after this edit \(line 1"):
        plan.commit()
    (files.root.path / "broken.py").write_text("a = (\nb = 1\n")
    plan = Plan(files)
    plan.replace("broken.py", "b = 1", "b = 2")  # it was broken before
    plan.commit()
    plan = Plan(files)
    plan.whole("new.json", "{")
    with pytest.raises(BreaksSyntax):
        plan.commit()


def test_files_are_made_by_an_empty_search_a_diff_or_as_a_whole(files: Workspace) -> None:
    plan = Plan(files)
    plan.blocks("new/x.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n")
    plan.diff("--- /dev/null\n+++ b/new/y.py\n@@ -0,0 +1 @@\n+y = 1\n--- a/a.py\n+++ b/a.py\n@@\n-a = 1\n")
    plan.whole("new/z.txt", "z")
    plan.commit()
    found = {path.name: path.read_bytes() for path in (files.root.path / "new").iterdir()}
    assert found == {"x.py": b"x = 1\n", "y.py": b"y = 1\n", "z.txt": b"z"}
    assert (files.root.path / "a.py").read_bytes() == b"b = 2\r\n"


def test_files_are_removed_by_a_diff(files: Workspace) -> None:
    plan = Plan(files)
    plan.diff("--- a/b.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-c = 3\n\\ No newline at end of file\n")
    plan.commit()
    assert not (files.root.path / "b.py").exists()
    with pytest.raises(BadEdit, match="leaves lines"):
        Plan(files).diff("--- a/a.py\n+++ /dev/null\n@@\n-a = 1\n")
    with pytest.raises(BadEdit, match="not an edit of one file"):
        Plan(files).diff("--- a/a.py\n+++ b/c.py\n@@\n-a = 1\n")


def test_whole_files_need_to_be_read_and_keep_their_last_line(files: Workspace) -> None:
    with pytest.raises(Unread):
        Plan(files).whole("b.py", "c = 4\n")
    files.read("b.py")
    files.read("a.py")
    plan = Plan(files)
    plan.whole("b.py", "b = 0\nc = 3\n")
    plan.whole("a.py", "a = 1\nb = 3")
    plan.commit()
    assert (files.root.path / "b.py").read_bytes() == b"b = 0\nc = 3"
    assert (files.root.path / "a.py").read_bytes() == b"a = 1\r\nb = 3\r\n"


def test_a_stale_file_is_not_edited(files: Workspace) -> None:
    files.read("a.py")
    (files.root.path / "a.py").write_text("a = 1\nmore = 1\n")
    with pytest.raises(Stale):
        Plan(files).replace("a.py", "a = 1", "a = 2")


def test_placeholders_paths_and_missing_files_are_refused(files: Workspace) -> None:
    with pytest.raises(Omission, match="leaves code out"):
        Plan(files).blocks(block("a.py", "b = 2", "# ... rest of the code unchanged ..."))
    with pytest.raises(OutsideWorkspace):
        Plan(files).blocks(block("../x.py", "a", "b"))
    with pytest.raises(NoSuchFile):
        Plan(files).blocks(block("none.py", "a", "b"))
    with pytest.raises(BadEdit, match="file's path"):
        Plan(files).blocks(block("", "a = 1", "b"))
    with pytest.raises(BadEdit, match="no SEARCH/REPLACE"):
        Plan(files).blocks("words")
    with pytest.raises(BadEdit, match="no unified diff"):
        Plan(files).diff("words")
    plan = Plan(files)
    plan.blocks(block("", "a = 1", "a = 2"), path="a.py")
    assert plan.commit()[0].path == "a.py"


def test_the_first_attempt_that_survives_is_taken(files: Workspace) -> None:
    answers = [
        block("a.py", "nothing", "x"),
        block("a.py", "a = 1", "a = ("),
        block("a.py", "a = 1", "a = 5"),
    ]
    plan, which = first_survivor(files, [lambda plan, a=a: plan.blocks(a) for a in answers])
    plan.commit()
    assert which == 2 and (files.root.path / "a.py").read_bytes().startswith(b"a = 5\r\n")
    with pytest.raises(NoMatch):
        first_survivor(files, [lambda plan: plan.blocks(answers[0]), lambda plan: plan.blocks("none")])
    with pytest.raises(BadEdit):
        first_survivor(files, [])


def test_definitions_are_rewritten(files: Workspace) -> None:
    (files.root.path / "d.py").write_text(
        "class A:\n    def f(self):\n        return 1\n\n    def g(self): ...\n"
    )
    plan = Plan(files)
    plan.symbol("d.py", "A.f", "@cache\ndef f(self):\n    return 2\n")
    plan.commit()
    assert (
        "    @cache\n    def f(self):\n        return 2\n\n    def g"
        in (files.root.path / "d.py").read_text()
    )
