"""A process killed with -9 at any event of a turn leaves a session that is whole and can be undone."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from agent_kit import FIX, MENDED, events_of, finished, project, working
from forking import forked
from tree import tree
from ultra_sdk import connect
from ultra_sdk.agent import Agent, Sessions, TextDelta
from ultra_sdk.agent.conversation import is_whole
from ultra_sdk.protocol import Create
from ultra_sdk.testing import Answer, FakeEngine


def script(create: Create) -> Answer:
    """Look (which makes a file), mend, done. An answer is one delta, so that each run has the same events."""
    said = ((create.messages or [])[-1].content or "").rpartition("Task:")[2]
    if "go on" in said:
        return Answer(["Fine."])
    if "exit code 0" in said:
        return Answer([FIX])
    return Answer(["```bash\necho > made; cat calc.py\n```\n"])


def child(root: Path, fake: FakeEngine, told: int, go: int) -> None:
    """Works, and tells of each event before it goes further."""

    async def work() -> None:
        async with connect(unix=fake.unix, token=fake.token, start=False) as engine:
            data = root.parent / "data"
            async with Agent(engine, root, mode="auto", data=data, checks=[MENDED]) as agent:
                os.write(told, (agent.session + "\n").encode())
                async for event in agent.turn("mend it"):
                    os.write(told, b"." if not isinstance(event, TextDelta) else b"t")
                    await asyncio.to_thread(os.read, go, 1)
        os.write(told, b"!")

    asyncio.run(work())


def killed_at(number: int, root: Path, fake: FakeEngine) -> tuple[str, bool]:
    """Run a child and kill it at its event ``number``; its session, and whether it ended before."""
    told, tell = os.pipe()
    going, go = os.pipe()
    process = forked(lambda: child(root, fake, tell, going))
    os.close(tell)
    os.close(going)
    session = b""
    try:
        while not session.endswith(b"\n"):
            session += os.read(told, 1)
        seen = 0
        while (mark := os.read(told, 1)) in (b".", b"t"):
            seen += 1
            if seen == number:
                break
            os.write(go, b"x")
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        return session.decode().strip(), mark == b"!"
    finally:
        os.close(told)
        os.close(go)


@pytest.mark.parametrize("part", range(2))
async def test_killed_at_any_event_the_session_goes_on(tmp_path: Path, part: int) -> None:
    for number in range(1 + part, 60, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        root = project(folder)
        before = tree(root)
        with FakeEngine(script) as fake:
            session, ended = await asyncio.to_thread(killed_at, number, root, fake)
        if ended:
            assert number > 12
            return
        async with working(root, script, session=session) as (agent, fake):
            assert agent._desk is not None
            entries = agent._desk.memory.entries
            assert is_whole(entries), number
            assert (await finished(agent, "go on")).summary == "Fine.", number
            assert is_whole(agent._desk.memory.entries)
            said = [message.role for message in fake.creates[0].messages or []]
            assert said[0] == "system" and all(a != b for a, b in zip(said, said[1:], strict=False))
            while agent._desk.checkpoints.done:
                await agent.undo()
        assert tree(root) == before, number
    raise AssertionError("the turn has no end")


async def test_a_torn_line_costs_no_more_than_itself(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, script) as (agent, _):
        await events_of(agent.turn("mend it"))
        path, session = agent.transcript, agent.session
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert Sessions(root, tmp_path / "data").latest() == session
    async with working(root, script, session=session) as (agent, _):
        assert (await finished(agent, "go on")).summary == "Fine."
