"""Bounds, profiles, sessions, the iterator, definitions in place of files, and what the package offers."""

from __future__ import annotations

import ast
import asyncio
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import ultra_sdk.agent
from agent_kit import FIX, project
from hypothesis import given
from hypothesis import strategies as st
from serving import ENVIRONMENT
from ultra_sdk.agent import Event, Finished, Notice, Profile, Sessions, Turn
from ultra_sdk.agent.bounds import circles
from ultra_sdk.agent.edits.partial import merge_definitions
from ultra_sdk.agent.redact import Redactor
from ultra_sdk.agent.transcript import Transcript, TranscriptError
from ultra_sdk.agent.turn import Emit
from ultra_sdk.testing import FakeEngine


def test_circles() -> None:
    assert circles("word " * 400) and circles("x = 1\n" + "    print('again and again')\n" * 60)
    assert not circles("".join(f"line {i} of a long file that goes on\n" for i in range(300)))
    assert not circles(" " * 3000) and not circles("") and not circles("-" * 400)
    assert not circles("| a | b |\n" * 20)


@pytest.mark.parametrize(
    ("model", "capabilities", "protocol", "edits"),
    [
        ("qwen2.5-coder-1.5b", ["tools"], "plain", "whole"),
        ("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", [], "plain", "whole"),
        ("qwen3-coder-30b-a3b", ["tools"], "tools", "blocks"),
        ("qwen3-coder-30b-a3b", [], "plain", "blocks"),
        ("llama-3.1-8b", ["tools"], "plain", "whole"),
        ("whatever", ["tools"], "plain", "whole"),
    ],
)
def test_profiles(model: str, capabilities: list[str], protocol: str, edits: str) -> None:
    profile = Profile.of(model, capabilities)
    assert (profile.protocol, profile.edits) == (protocol, edits)


def test_sessions_are_listed_latest_first(tmp_path: Path) -> None:
    root = project(tmp_path)
    sessions = Sessions(root, tmp_path / "data")
    assert sessions.latest() is None and sessions.list() == []
    for number, name in enumerate(("one", "two", "empty")):
        with Transcript(sessions.path(name), Redactor({})) as transcript:
            if name != "empty":
                transcript.append({"type": "user", "text": "t", "title": f"task {name}", "task": True})
        import os

        os.utime(sessions.path(name), (number, number))
    assert [(info.id, info.title) for info in sessions.list()] == [("two", "task two"), ("one", "task one")]
    assert sessions.latest() == "two" and sessions.new() != sessions.new()
    with pytest.raises(TranscriptError, match="there is no session x; sessions: two, one"):
        sessions.existing("x")
    for bad in ("../x", "", "a/b"):
        with pytest.raises(TranscriptError, match="is no session"):
            sessions.path(bad)
    assert Sessions(tmp_path, tmp_path / "data").list() == []


def test_definitions_in_the_place_of_a_file() -> None:
    old = '"""Doc."""\n\nimport os\n\n\ndef f():\n    return 1\n\n\ndef g():\n    return os\n'
    merged = merge_definitions(old, "import re\n\ndef g():\n    return re\n", "a.py")
    assert merged is not None and merged[1] == ("g",)
    assert merged[0] == old.replace("import os\n", "import os\nimport re\n").replace("return os", "return re")
    for new in (
        old,
        "def f(): ...\ndef g(): ...\n",
        "def h(): ...\n",
        "x = 1\ndef f(): ...\n",
        "def f(:",
        "",
    ):
        assert merge_definitions(old, new, "a.py") is None
    assert merge_definitions("def f(): ...\ndef f(): ...\ndef g(): ...\n", "def f(): ...\n", "a.py") is None


@given(st.lists(st.sampled_from("abcd"), unique=True, min_size=2), st.data())
def test_no_definition_is_lost(names: list[str], data: st.DataObject) -> None:
    part = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=len(names) - 1))
    old = "\n\n".join(f"@d\ndef {name}():\n    return 1" for name in names) + "\n"
    merged = merge_definitions(old, "\n".join(f"def {name}():\n    return 2" for name in part), "a.py")
    assert merged is not None
    values = {node.name: ast.unparse(node.body[0]) for node in ast.parse(merged[0]).body}  # type: ignore[attr-defined]
    assert values == {name: f"return {2 if name in part else 1}" for name in names}


async def test_the_work_goes_only_as_far_as_it_is_looked_at() -> None:
    done: list[int] = []

    async def work(emit: Emit) -> None:
        for number in range(3):
            await emit(Notice(str(number)))
            done.append(number)

    turn = Turn(work)
    await asyncio.sleep(0)
    assert done == [] and not turn.over
    first = await anext(turn)
    await asyncio.sleep(0)
    assert isinstance(first, Notice) and done == []
    await anext(turn)
    assert done == [0]
    waiting = asyncio.create_task(anext(turn))
    await asyncio.sleep(0)
    waiting.cancel()
    assert [event async for event in turn] in ([Notice("2")], []) and done == [0, 1, 2] and turn.over


async def test_a_mistake_in_the_work_is_raised_to_whoever_iterates() -> None:
    async def work(emit: Emit) -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await anext(Turn(work))
    closed = Turn(work)
    await closed.aclose()
    assert [event async for event in closed] == [] and closed.over


def test_every_public_name_is_there() -> None:
    for name in ultra_sdk.agent.__all__:
        assert getattr(ultra_sdk.agent, name) is not None
    source = Path(ultra_sdk.agent.__file__ or "").read_text()
    static = {line.split()[-1] for line in source.splitlines() if line.startswith("    from .")}
    assert static == set(ultra_sdk.agent.__all__) <= set(dir(ultra_sdk.agent))
    for kind in typing.get_args(Event):
        assert kind.__name__ in ultra_sdk.agent.__all__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ultra_sdk.agent.nonsense


def test_the_example_runs(tmp_path: Path) -> None:
    lines = (ultra_sdk.agent.__doc__ or "").split("\n")
    script = "\n".join(line[4:] for line in lines[2 : lines.index("    asyncio.run(main())") + 1])
    root = project(tmp_path)
    with FakeEngine(["```bash\ncat calc.py\n```", FIX]) as fake:
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env={**ENVIRONMENT, **fake.env, "ULTRA_DATA_DIR": str(tmp_path / "data")},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\+    return a \+ b$", done.stdout, re.M)
    assert isinstance(Finished("done"), ultra_sdk.agent.Finished)
