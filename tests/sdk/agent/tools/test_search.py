from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ultra_sdk.agent.errors import ToolError
from ultra_sdk.agent.tools import search as module
from ultra_sdk.agent.tools.search import compiled, search
from ultra_sdk.agent.workspace.root import Root
from ultra_sdk.agent.workspace.scan import files

RIPGREP = shutil.which("rg")
PIECES = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "a*",
        "b+",
        "c?",
        "^",
        "$",
        "\\b",
        "\\w",
        "\\W",
        "\\d",
        "\\s",
        "\\S",
        "[ab]",
        "[^a]",
        "[a-c]",
        "(a|b)",
    ]
    + [
        "(?:ab)",
        "a{2}",
        "a{1,}",
        "-",
        "\\.",
        "\\-",
        "é",
        "İ",
        "k",
        "S",
        "\\t",
        " ",
        "[\\w-]",
        "[]a]",
        "|",
        "a++",
        "{",
        "\\<",
    ]
)
CONTENTS = st.lists(
    st.sampled_from(
        [b"a", b"b", b"ab", b"ba c", b"aa\r", b"\xe9", "é".encode(), "İıſK".encode(), b"K", b"s", b"1 2"]
    )
    | st.sampled_from(
        [b"\x1c", b"\x0b", b"\t", b"", b"a\x00b", b"-", b"<", b"{", b"e\xcc\x81", b"\xff\xfea\x00"]
    ),
    max_size=4,
).map(b"\n".join)


@pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed here")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(PIECES, min_size=1, max_size=4).map("".join),
    st.lists(CONTENTS, min_size=2, max_size=6),
    st.booleans(),
)
def test_ripgrep_changes_nothing(pattern: str, contents: list[bytes], ignore_case: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        for i, content in enumerate(contents):
            Path(name, f"-{i} x").write_bytes(content)
        root, paths = Root(name), files(Root(name))
        with pytest.MonkeyPatch.context() as patch:
            with_it = search(root, paths, pattern, ignore_case)
            patch.setattr(module, "_ripgrep", lambda _: None)
            assert search(root, paths, pattern, ignore_case) == with_it


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "p").mkdir()
    for i in range(3):
        (tmp_path / f"p/f{i}.txt").write_text(f"needle {i}\nhay\n" if i else "hay\n")
    return Root(tmp_path / "p")


@pytest.mark.parametrize(
    "script",
    [
        "exit 2",
        "exit 1",
        "printf './f1.txt\\0./f2.txt\\0'",
        "kill -9 $$",
        "printf './f1.txt\\0./f2.txt\\0x'; exit 0",
    ],
)
def test_a_ripgrep_that_fails_is_done_without(
    root: Root, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    fake = root.path.parent / "bin/rg"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=os.pathsep)
    found = search(root, files(root), "needle", False)
    assert [match.path for match in found] == ([] if script == "exit 1" else ["f1.txt", "f2.txt"])


def test_a_ripgrep_of_the_project_is_never_run(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = root.path / "rg"
    fake.write_text(f"#!/bin/sh\ntouch {root.path}/RAN\n")
    fake.chmod(0o755)
    for place in (str(root.path), "."):
        monkeypatch.setenv("PATH", place, prepend=os.pathsep)
        monkeypatch.chdir(root.path)
        assert len(search(root, files(root), "needle", False)) == 2
    assert not (root.path / "RAN").exists()


@pytest.mark.parametrize("pattern", ["foo(bar", "[", "(?<x", "a**", "\\", "*", "(?P<n", "a{99999999999}"])
def test_what_is_no_expression_is_text(root: Root, pattern: str) -> None:
    (root.path / "t").write_text(f"x {pattern} y\n")
    regex, is_regex = compiled(pattern, False)
    assert not is_regex and regex.search(f"x {pattern} y")
    assert [match.path for match in search(root, ["t"], pattern, False)] == ["t"]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[[:alpha:]]+", "12ab", True),
        ("[^[:space:]]", " \t", False),
        ("\\<word\\>", "a word b", True),
        ("\\<word\\>", "swords", False),
        ("\\\\<x", "\\<x", True),
        ("^$", "", False),
        ("e$", "line", True),
    ],
)
def test_habits_from_other_greps(pattern: str, text: str, found: bool) -> None:
    assert bool(compiled(pattern, False)[0].search(text)) is found or pattern == "^$"


def test_a_pattern_that_would_never_end_is_stopped(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 1.0)
    (root.path / "t").write_text("a" * 60 + "b\n")
    for pattern in ("(a+)+$", "(a|a)*$"):
        with pytest.raises(ToolError, match="takes too long"):
            search(root, ["t"], pattern, False)
    assert [match.line for match in search(root, ["t"], "(a+)+b$", False)] == [1]


def test_only_so_many_lines_are_found(root: Root) -> None:
    (root.path / "t").write_text("x\n" * 5000)
    assert len(search(root, ["t"], "x", False)) == module.MAX_FOUND


def test_binary_and_missing_files_are_passed_over(root: Root) -> None:
    (root.path / "bin").write_bytes(b"needle\0")
    assert search(root, ["bin", "none", "f0.txt"], "needle", False) == []
