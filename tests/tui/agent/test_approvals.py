from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_sdk.agent import (
    Approval,
    Checked,
    Edited,
    Finished,
    PermissionAsked,
    Step,
    ToolAnswered,
    ToolCalled,
)
from ultra_tui.agent.approvals import Approvals
from ultra_tui.agent.lines import ending, line


def question(name: str) -> PermissionAsked:
    return PermissionAsked(name, "bash", "shell", name, f"run {name}?")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["ask", "allow", "deny", "late", "cancel"]), max_size=20))
def test_questions_are_answered_in_the_order_in_which_they_came(actions: list[str]) -> None:
    async def run() -> None:
        changes: list[int] = []
        approvals = Approvals(lambda: changes.append(1))
        waiting: list[tuple[PermissionAsked, asyncio.Task[Approval]]] = []
        for number, action in enumerate(actions):
            if action == "ask":
                asked = question(str(number))
                waiting.append((asked, asyncio.create_task(approvals.ask(asked))))
                await asyncio.sleep(0)
            elif waiting and action in ("allow", "deny"):
                asked, task = waiting.pop(0)
                assert approvals.first is asked
                approvals.answer(asked, action)  # type: ignore[arg-type]
                assert await task == action
            elif len(waiting) > 1 and action == "late":
                approvals.answer(waiting[-1][0], "allow")  # not the one on the screen
                await asyncio.sleep(0)
                assert not waiting[-1][1].done()
            elif waiting and action == "cancel":
                _, task = waiting.pop()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert len(approvals) == len(waiting)
            assert approvals.first is (waiting[0][0] if waiting else None)
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)

    asyncio.run(run())


def test_events_as_lines() -> None:
    assert line(ToolCalled("c1", "bash", "ls\nrm \x1b[31mx")) == ("$ ls ⏎ rm x", "plain")
    assert line(ToolCalled("c1", "write", {"path": "a"})) is None and line(Step(1)) is None
    assert line(Edited("c1", "a.py", "created", 2, 0, "")) == ("± created a.py +2 -0", "plain")
    assert line(ToolAnswered("c1", "bash", False, "exit code 1\na\nboom")) == ("✕ exit code 1: boom", "bad")
    assert line(ToolAnswered("c1", "check", False, "x")) is None
    assert line(Checked("pytest", False, "exit code 2", 1.0)) == ("✕ pytest: exit code 2", "bad")
    assert len((line(ToolCalled("c1", "bash", "x" * 999)) or ("", ""))[0]) < 210
    assert ending(Finished("done", steps=1, output_tokens=1))[0] == "done · 1 step · 1 token · 0 s"
    assert ending(Finished("done", verified=False, why="y"))[0].startswith("▲ not verified: y · 0 steps")
    assert ending(Finished("cancelled", why="stopped"))[0].startswith("■ stopped · ")
