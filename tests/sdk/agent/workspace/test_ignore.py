from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_sdk.agent.workspace.globs import braces, matches
from ultra_sdk.agent.workspace.root import Root
from ultra_sdk.agent.workspace.scan import files, scan

ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "PATH": "/usr/bin:/bin:/usr/local/bin",
}
NAMES = ["a", "b", "ab", "a.log", "b.log", "[x]", "#c", "!d", "sp ce", "e "]
PARTS = st.sampled_from(
    [
        *NAMES,
        "*",
        "**",
        "?",
        "*.log",
        "[ab]",
        "[!a]",
        "[^b]*",
        "a*",
        "\\#c",
        "\\!d",
        "[a-",
        "b\\",
        "x**y",
        "[[:alpha:]]",
    ]
)
PATTERN = st.builds(
    lambda bang, lead, parts, trail, space: bang + lead + "/".join(parts) + trail + space,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(["", "/", "/**"]),
    st.sampled_from(["", " ", "\\ "]),
)
TREE = st.lists(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join), min_size=1, max_size=8
)


def _build(folder: Path, tree: list[str]) -> None:
    for path in tree:
        try:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("x")
        except OSError:
            pass  # a name that is a file in one path and a folder in another


@settings(max_examples=60, deadline=None)
@given(TREE, st.lists(PATTERN, max_size=4), st.lists(PATTERN, max_size=2))
def test_git_agrees(tree: list[str], top: list[str], inner: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _build(folder, tree)
        (folder / ".gitignore").write_text("\n".join(top))
        if (folder / "a").is_dir():
            (folder / "a/.gitignore").write_text("\n".join(inner))
        subprocess.run(["git", "init", "-q"], cwd=folder, env=ENV, check=True)
        listed = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
        out = subprocess.run(listed, cwd=folder, env=ENV, check=True, capture_output=True, text=True).stdout
        assert files(Root(folder)) == sorted(out.split("\0")[:-1])


def test_folders_that_are_never_work(tmp_path: Path) -> None:
    _build(
        tmp_path, [".git/config", "node_modules/x/y.js", "src/__pycache__/a.pyc", "src/a.py", "cache/data"]
    )
    (tmp_path / "cache/CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n")
    (tmp_path / "link").symlink_to("src")
    assert files(Root(tmp_path)) == ["src/a.py"]
    kinds = {found.path: found.kind for found in scan(Root(tmp_path))}
    assert kinds == {
        ".git": "ignored",
        "cache": "ignored",
        "link": "link",
        "node_modules": "ignored",
        "src": "folder",
        "src/__pycache__": "ignored",
        "src/a.py": "file",
    }


def test_a_scan_can_start_below_and_still_knows_the_rules_above(tmp_path: Path) -> None:
    _build(tmp_path, ["src/in/a.log", "src/in/b.py", "src/c.py"])
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "src/.gitignore").write_text("c.py\n")
    assert files(Root(tmp_path), "src") == ["src/.gitignore", "src/in/b.py"]
    assert files(Root(tmp_path), "src/in") == ["src/in/b.py"]
    assert files(Root(tmp_path), "src/in/b.py") == ["src/in/b.py"]


def test_very_deep_trees_end(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(130):
        deep = deep / "d"
        deep.mkdir()
    assert sum(found.kind == "folder" for found in scan(Root(tmp_path))) == 100


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "src/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/in/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("**/a.py", "a.py", True),
        ("*.{c,h}", "x/y.h", True),
        ("{a,b}{1,2}", "b2", True),
        ("/a.py", "a.py", True),
        ("[", "[", False),
        ("a{b", "a{b", True),
    ],
)
def test_globs(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def test_many_braces_end() -> None:
    assert len(braces("{a,b}" * 20)) < 200
