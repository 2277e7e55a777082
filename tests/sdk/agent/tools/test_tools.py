from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandbox_kit import CONFINED, LEVELS
from ultra_sdk.agent.errors import ToolError
from ultra_sdk.agent.sandbox.policy import Level
from ultra_sdk.agent.tools.base import Context, Limits
from ultra_sdk.agent.tools.bash import BashResult
from ultra_sdk.agent.tools.check import CheckResult
from ultra_sdk.agent.tools.done import DoneResult
from ultra_sdk.agent.tools.edit import EditResult
from ultra_sdk.agent.tools.glob import GlobResult
from ultra_sdk.agent.tools.grep import GrepResult
from ultra_sdk.agent.tools.read import Read, ReadResult
from ultra_sdk.agent.tools.registry import Registry
from ultra_sdk.agent.tools.standard import standard
from ultra_sdk.agent.workspace.files import Workspace

REGISTRY = Registry(standard())
EDIT = "a.py\n<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE\n"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    for name in ("project/src", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project/a.py").write_text("a = 1\nb = 2\n")
    (tmp_path / "project/src/long.txt").write_text("".join(f"line {i}\n" for i in range(1, 1001)))
    return Context(
        Workspace(tmp_path / "project", scratch=tmp_path / "scratch"), tmp_path / "scratch", mode="auto"
    )


def test_schemas_are_short_and_plain() -> None:
    schemas = REGISTRY.schemas()
    assert [
        each["function"]["name"] for each in schemas
    ] == "read grep glob edit write bash check done".split()
    text = json.dumps(schemas)
    assert "$ref" not in text and "title" not in text and len(text) < 3500
    for each in schemas:
        assert each["function"]["description"] and each["function"]["parameters"]["type"] == "object"
        assert all(field["description"] for field in each["function"]["parameters"]["properties"].values())


def test_parameters_are_typed_and_lenient() -> None:
    assert REGISTRY.parse("read", {"file_path": "a", "start": "3", "junk": 1, "lines": None}) == Read(
        path="a", start=3
    )
    assert REGISTRY.parse("read", "a.py") == Read(path="a.py")
    for arguments, said in (
        ({}, "it needs path"),
        ({"path": "a", "start": "x"}, "Expected int"),
        ({"path": [1]}, "str"),
    ):
        with pytest.raises(ToolError, match=f"read: .*{said}"):
            REGISTRY.parse("read", arguments)
    with pytest.raises(ToolError, match="there are: read, grep"):
        REGISTRY.parse("nope", {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.sampled_from(["read", "grep", "glob", "edit", "write", "done", "nope"]),
    st.dictionaries(
        st.sampled_from(["path", "pattern", "blocks", "content", "start"]),
        st.text(max_size=8) | st.integers(),
    ),
)
async def test_no_call_ever_raises(context: Context, name: str, arguments: dict[str, str | int]) -> None:
    result = await REGISTRY.call(name, arguments, context)
    assert isinstance(result.text, str) and result.text


async def test_read(context: Context) -> None:
    result = await REGISTRY.call("read", {"path": "a.py"}, context)
    assert isinstance(result, ReadResult)
    assert result.text == "    1  a = 1\n    2  b = 2" and (result.start, result.end, result.total) == (
        1,
        2,
        2,
    )
    result = await REGISTRY.call("read", {"path": "src/long.txt", "start": 990, "lines": 5}, context)
    assert result.text.endswith("  994  line 994\n[lines 990-994 of 1000; read on with start=995]")
    result = await REGISTRY.call("read", {"path": "src/long.txt"}, context)
    assert isinstance(result, ReadResult) and result.end == 400
    result = await REGISTRY.call("read", {"path": "src/long.txt", "start": 2000}, context)
    assert result.text == "[the file has only 1000 lines]"
    (context.workspace.root.path / "wide").write_text("x" * 5000 + "\n" + "y" * 1900 + "\n" * 2)
    context.limits = Limits(read_chars=3000)
    result = await REGISTRY.call("read", {"path": "wide"}, context)
    assert "[... 3,000 more characters]" in result.text and "read on with start=2" in result.text


async def test_read_of_what_is_no_file(context: Context) -> None:
    result = await REGISTRY.call("read", {"path": "."}, context)
    assert result.text == "a.py\nsrc/"
    result = await REGISTRY.call("read", {"path": "other/long.txt"}, context)
    assert (
        not result.ok and result.text == "other/long.txt: there is no such file; did you mean src/long.txt?"
    )
    for path in ("../scratch/../x", "/etc", "/etc/passwd"):
        result = await REGISTRY.call("read", {"path": path}, context)
        assert not result.ok and "outside the project" in result.text
    (context.workspace.root.path / "empty").write_text("")
    assert (await REGISTRY.call("read", "empty", context)).text == "[the file is empty]"


async def test_grep(context: Context) -> None:
    result = await REGISTRY.call("grep", {"pattern": "line 99"}, context)
    assert isinstance(result, GrepResult) and result.total == 11
    assert result.text.startswith("src/long.txt\n   99: line 99\n  990: line 990")
    result = await REGISTRY.call("grep", {"pattern": "line", "path": "src"}, context)
    assert isinstance(result, GrepResult) and len(result.matches) == 100 and result.total == 1000
    assert result.text.endswith("[100 of 1000 matches; narrow the pattern, path or glob]")
    result = await REGISTRY.call(
        "grep", {"pattern": "LINE 7", "glob": "*.py", "ignore_case": "true"}, context
    )
    assert result.ok and result.text == "no match in 1 files"
    result = await REGISTRY.call("grep", {"pattern": "a = 1(", "path": "a.py"}, context)
    assert result.text.startswith("[not a regular expression")
    (context.workspace.root.path / "min.js").write_text("x" * 4000 + "needle" + "y" * 4000)
    result = await REGISTRY.call("grep", "needle", context)
    assert "...xxx" in result.text and "needle" in result.text and len(result.text) < 400
    assert not (await REGISTRY.call("grep", {"pattern": "x", "path": ".."}, context)).ok


async def test_glob(context: Context) -> None:
    result = await REGISTRY.call("glob", "*.txt", context)
    assert isinstance(result, GlobResult) and result.paths == ("src/long.txt",)
    result = await REGISTRY.call("glob", {"pattern": "src/*", "path": "src"}, context)
    assert result.text == "src/long.txt"
    assert (await REGISTRY.call("glob", "*.rs", context)).text == "no file matches"
    for i in range(250):
        (context.workspace.root.path / f"n{i}.c").touch()
    result = await REGISTRY.call("glob", "*.c", context)
    assert (
        isinstance(result, GlobResult)
        and len(result.paths) == 200
        and result.text.endswith("[50 more; narrow the pattern]")
    )


async def test_edit_and_write(context: Context) -> None:
    result = await REGISTRY.call("edit", EDIT, context)
    assert isinstance(result, EditResult) and result.text.startswith("edited a.py (+1 -1)\n--- a/a.py")
    assert result.diff.endswith("-a = 1\n+a = 2\n b = 2\n") and result.changes[0].path == "a.py"
    result = await REGISTRY.call("edit", "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a = 2\n+a = 3\n", context)
    assert result.ok and (context.workspace.root.path / "a.py").read_text() == "a = 3\nb = 2\n"
    result = await REGISTRY.call("edit", {"edit": EDIT}, context)
    assert not result.ok and "SEARCH is not in a.py" in result.text
    block = EDIT.partition("\n")[2].replace("a = 1", "b = 2").replace("a = 2", "b = 3")
    assert (await REGISTRY.call("edit", {"path": "a.py", "blocks": block}, context)).ok
    result = await REGISTRY.call("write", {"path": "src/long.txt", "content": "x"}, context)
    assert not result.ok and "read it before" in result.text
    result = await REGISTRY.call("write", {"path": "new.txt", "content": "x\n"}, context)
    assert result.text == "created new.txt (+1 -0)"
    result = await REGISTRY.call("write", {"path": "new.txt", "content": "x\n"}, context)
    assert not result.ok and "nothing changed" in result.text


@pytest.mark.parametrize("level", LEVELS)
async def test_bash(context: Context, level: Level) -> None:
    context.level = level
    result = await REGISTRY.call("bash", {"command": "pwd; echo x > made; exit 3"}, context)
    assert isinstance(result, BashResult) and not result.ok and result.outcome is not None
    assert result.text == f"exit code 3\n{context.workspace.root.path}\n"
    assert (context.workspace.root.path / "made").exists() and result.outcome.level == level
    result = await REGISTRY.call("bash", {"cmd": "seq 20000", "timeout": 30}, context)
    assert isinstance(result, BashResult) and result.outcome is not None and result.outcome.path is not None
    assert f"all of it is in {result.outcome.path}" in result.text and len(result.text) < 4300
    assert (await REGISTRY.call("read", {"path": str(result.outcome.path), "start": 19999}, context)).ok
    result = await REGISTRY.call("bash", {"cmd": "echo a; sleep 60", "timeout": 0.5}, context)
    assert result.text == "stopped: it took more than 0.5 s\na\n"
    assert [path.name for path in context.scratch.glob("output-*")] == ["output-2.txt"]


@pytest.mark.parametrize("level", [level for level in CONFINED if level != "landlock"])
async def test_git_is_write_protected_where_it_can_be(context: Context, level: Level) -> None:
    context.level = level
    (context.workspace.root.path / ".git").mkdir()
    await REGISTRY.call("bash", "echo x > .git/x; rm -r .git; git config x.y z", context)
    assert os.listdir(context.workspace.root.path / ".git") == []


async def test_modes(context: Context) -> None:
    context.mode, context.level = "read-only", "advisory"
    for name, arguments in (
        ("edit", EDIT),
        ("write", {"path": "x", "content": "x"}),
        ("bash", "touch x"),
        ("check", {}),
    ):
        result = await REGISTRY.call(name, arguments, context)
        assert not result.ok and result.text == f"{name} is not allowed in read-only mode"
    assert (await REGISTRY.call("read", "a.py", context)).ok and not (
        context.workspace.root.path / "x"
    ).exists()
    context.mode = "auto"
    assert REGISTRY.permission("bash", context) == "ask" and REGISTRY.permission("edit", context) == "allow"
    assert "advisory" in REGISTRY.asks("bash", "make", context)
    context.network = True
    assert "with the network" in REGISTRY.asks("bash", "make", context)


@pytest.mark.parametrize("level", CONFINED)
async def test_commands_of_a_reader_cannot_write(context: Context, level: Level) -> None:
    context.mode, context.level = "read-only", level
    result = await REGISTRY.call("bash", "cat a.py; touch x; rm a.py", context)
    assert "a = 1" in result.text
    assert (context.workspace.root.path / "a.py").exists() and not (
        context.workspace.root.path / "x"
    ).exists()


async def test_check(context: Context) -> None:
    result = await REGISTRY.call("check", {}, context)
    assert not result.ok and result.text == "there is no check; checks: none was found in this project"
    (context.workspace.root.path / "test_a.py").write_text(
        "import unittest\nfrom a import a\n\nclass T(unittest.TestCase):\n"
        "    def test_a(self):\n        self.assertEqual(a, 2)\n    def test_b(self):\n        pass\n"
    )
    result = await REGISTRY.call("check", {}, context)
    assert isinstance(result, CheckResult) and not result.ok and result.reports[0].check.name == "unittest"
    assert result.text.startswith("unittest: 1 failed\n- test_a (test_a.T.test_a): AssertionError: 1 != 2\n")
    await REGISTRY.call("edit", EDIT, context)
    result = await REGISTRY.call("check", {"name": "unittest"}, context)
    assert result.ok and result.text == "unittest: passed"
    assert "checks: unittest" in (await REGISTRY.call("check", "nope", context)).text


async def test_done(context: Context) -> None:
    result = await REGISTRY.call("done", " All of it. ", context)
    assert isinstance(result, DoneResult) and result.summary == "All of it."
