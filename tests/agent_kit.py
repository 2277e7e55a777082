"""For tests of the agent: a project, a scripted model, and a turn from its first event to its last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ultra_sdk import connect
from ultra_sdk.agent import Agent, Check, Event, Finished, Turn
from ultra_sdk.agent.events import Approval, PermissionAsked
from ultra_sdk.testing import FakeEngine, Script

CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
FIXED = CALC.replace("a - b", "a + b")
TEST = "import unittest\nfrom calc import add\n\n\nclass T(unittest.TestCase):\n    def test_add(self):\n"
TEST += "        self.assertEqual(add(2, 3), 5)\n"
MENDED = Check("mended", "grep -q 'a + b' calc.py")
"""A check that takes no time."""
FIX = f"path: calc.py\n```python\n{FIXED}```\nDONE: add adds."


def project(folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """A project with these files; by default a module with a fault and its test."""
    root = folder / "project"
    for name, content in (files if files is not None else {"calc.py": CALC, "test_calc.py": TEST}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    root.mkdir(parents=True, exist_ok=True)
    return root


async def allow(request: PermissionAsked) -> Approval:
    """A person who says yes to everything."""
    return "allow"


@asynccontextmanager
async def working(root: Path, script: Script, **options: Any) -> AsyncIterator[tuple[Agent, FakeEngine]]:
    """An agent on a scripted model, its data beside the project."""
    engine = {name: options.pop(name) for name in ("model", "context_tokens") if name in options}
    with FakeEngine(script, **engine) as fake:
        async with connect(unix=fake.unix, token=fake.token, start=False) as client:
            settings = {"mode": "auto", "approve": allow, "data": root.parent / "data", **options}
            async with Agent(client, root, **settings) as agent:
                yield agent, fake


async def events_of(turn: Turn) -> list[Event]:
    """All of them."""
    return [event async for event in turn]


async def finished(agent: Agent, task: str) -> Finished:
    """The last event of a turn."""
    last = (await events_of(agent.turn(task)))[-1]
    assert isinstance(last, Finished)
    return last


def prompt(fake: FakeEngine, number: int = -1) -> str:
    """What the model was told in its last message of a request."""
    messages = fake.creates[number].messages
    assert messages
    return messages[-1].content or ""
