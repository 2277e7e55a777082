from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from agent_kit import CALC, FIX, FIXED, MENDED, TEST, events_of, finished, project, prompt, working
from sandbox_kit import CONFINED
from tree import tree
from ultra_sdk.agent import (
    Bounds,
    Checked,
    Edited,
    Finished,
    Loaded,
    PermissionAsked,
    TextDelta,
    ToolAnswered,
    ToolCalled,
)
from ultra_sdk.agent.conversation import is_whole
from ultra_sdk.agent.events import Approval
from ultra_sdk.protocol import Create, Error
from ultra_sdk.testing import Answer

RUN = "```bash\necho 1\n```"
LOOK = "```bash\ncat calc.py\n```"


async def test_a_fault_is_found_mended_and_verified(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, [LOOK, FIX]) as (agent, fake):
        events = await events_of(agent.turn("add is wrong"))
        last = events[-1]
        assert isinstance(last, Finished)
        assert (last.reason, last.verified, last.summary) == ("done", True, "add adds.")
        assert last.changed == ("calc.py",) and last.steps == 2
        assert (root / "calc.py").read_text() == FIXED
        assert "exit code 0\ndef add" in prompt(fake)
        calls = [event.tool for event in events if isinstance(event, ToolCalled)]
        assert calls == ["bash", "write", "check"]
        (edit,) = [event for event in events if isinstance(event, Edited)]
        assert (edit.kind, edit.added, edit.removed) == ("edited", 1, 1) and "+    return a + b" in edit.diff
        assert [event.passed for event in events if isinstance(event, Checked)] == [True]
        await agent.undo()
        assert (root / "calc.py").read_text() == CALC
        await agent.redo()
        assert (root / "calc.py").read_text() == FIXED


async def test_every_call_is_answered_once_and_in_order(tmp_path: Path) -> None:
    async with working(project(tmp_path), [LOOK, FIX]) as (agent, _):
        events = await events_of(agent.turn("x"))
    ids = [event.id for event in events if isinstance(event, ToolCalled)]
    assert ids == [event.id for event in events if isinstance(event, ToolAnswered)] and len(set(ids)) == 3
    kinds = [type(event).__name__ for event in events if not isinstance(event, TextDelta)]
    assert kinds[0] == "Began" and kinds[-1] == "Finished" and kinds.count("Finished") == 1


async def test_a_failing_check_is_told_before_and_objected_to_at_the_end(tmp_path: Path) -> None:
    async with working(project(tmp_path), ["DONE: it works.", "DONE: it does."]) as (agent, fake):
        last = await finished(agent, "fix the failing test")
        assert prompt(fake, 0) == "Files: calc.py test_calc.py\n\nTask: fix the failing test"
        assert "The project's checks still fail" in prompt(fake, 1) and "test_add" in prompt(fake, 1)
        assert (last.reason, last.verified, last.steps) == ("done", None, 2) and "checks fail" in last.why


async def test_what_the_turn_tests_itself_is_not_verified(tmp_path: Path) -> None:
    root = project(tmp_path)
    weak = TEST.replace("5", "-1")
    files = f"path: test_calc.py\n```python\n{weak}```\nDONE: the test passes."
    async with working(root, ["```bash\ncat test_calc.py\n```", files]) as (agent, _):
        last = await finished(agent, "make it pass")
    assert (last.reason, last.verified) == ("done", False) and "test_calc.py" in last.why


async def test_tests_that_are_not_there_verify_nothing(tmp_path: Path) -> None:
    root = project(tmp_path, {"test_x.py": ""})
    files = "path: x.py\n```python\nx = 1\n```\nDONE: made."
    async with working(root, [files, "```bash\ntrue\n```", "DONE: made."]) as (agent, fake):
        last = await finished(agent, "make x.py")
        assert "Run it with one command" in prompt(fake, 1)
    assert (last.reason, last.verified) == ("done", False)


async def test_a_question_needs_no_verifying(tmp_path: Path) -> None:
    async with working(project(tmp_path), "It adds two numbers.") as (agent, fake):
        events = await events_of(agent.turn("what does @calc.py do?"))
        last = events[-1]
    assert isinstance(last, Finished)
    assert (last.reason, last.verified, last.summary) == ("done", None, "It adds two numbers.")
    assert [event.path for event in events if isinstance(event, Loaded)] == ["calc.py"]
    assert prompt(fake).startswith("Files: calc.py test_calc.py\n\npath: calc.py\n```python\ndef add")


async def test_what_was_shown_may_be_overwritten_and_what_was_not_is_shown_first(tmp_path: Path) -> None:
    root = project(tmp_path, {"calc.py": CALC})
    async with working(root, [FIX, FIX, "```bash\ntrue\n```", "DONE: yes."]) as (agent, fake):
        await finished(agent, "repair the sum")
        assert "not seen it" in prompt(fake, 1) and CALC in prompt(fake, 1)
    assert (root / "calc.py").read_text() == FIXED


async def test_what_somebody_else_changed_is_shown_and_not_overwritten(tmp_path: Path) -> None:
    root = project(tmp_path, {"calc.py": CALC})

    def script(create: Create) -> str:
        if len(fake_engine.creates) == 1:
            return LOOK
        if len(fake_engine.creates) == 2:
            (root / "calc.py").write_text("mine = 1\n")
            return FIX
        return "DONE: left it."

    async with working(root, script) as (agent, fake_engine):
        last = await finished(agent, "x")
        assert "changed since you saw it" in prompt(fake_engine) and "mine = 1" in prompt(fake_engine)
    assert (root / "calc.py").read_text() == "mine = 1\n" and last.verified is False


async def test_some_definitions_alone_replace_these(tmp_path: Path) -> None:
    root = project(tmp_path)
    part = "The new `calc.py`:\n\n```python\ndef add(a, b):\n    return a + b\n```\nDONE: mended."
    async with working(root, part) as (agent, _):
        last = await finished(agent, "add of calc.py is wrong")
    assert last.verified and (root / "calc.py").read_text() == FIXED


async def test_in_ask_mode_a_person_sees_the_diff_first(tmp_path: Path) -> None:
    asked: list[PermissionAsked] = []

    async def approve(request: PermissionAsked) -> Approval:
        asked.append(request)
        return "deny" if request.tool == "write" else "allow"

    root = project(tmp_path)
    async with working(root, [RUN, FIX, "DONE: nothing."], mode="ask", approve=approve) as (agent, fake):
        last = await finished(agent, "repair the sum in @calc.py")
        assert "the user refused it" in prompt(fake)
    assert [request.tool for request in asked] == ["bash", "write"]
    assert asked[0].what == "echo 1" and asked[0].question.startswith("run echo 1?")
    assert "+    return a + b" in asked[1].diff and (root / "calc.py").read_text() == CALC
    assert last.verified is False and not last.changed


@pytest.mark.skipif(not CONFINED, reason="nothing here would hold the command to it")
@pytest.mark.parametrize(
    ("command", "asked"),
    [("cat calc.py", 0), ("ls -l .", 0), ("cat /etc/hostname", 1), ("cat calc.py > x", 1), ("cat ../x", 1)],
)
async def test_looking_at_the_project_needs_no_word(tmp_path: Path, command: str, asked: int) -> None:
    questions: list[str] = []

    async def approve(request: PermissionAsked) -> Approval:
        questions.append(request.what)
        return "deny"

    script = [f"```bash\n{command}\n```", "DONE: seen."]
    async with working(project(tmp_path), script, mode="ask", approve=approve) as (agent, _):
        await finished(agent, "look")
    assert questions == [command] * asked


async def test_always_holds_for_the_same_command_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    async def approve(request: PermissionAsked) -> Approval:
        asked.append(request.what)
        return "always"

    script = [RUN, RUN, "```bash\necho 2\n```", "DONE: seen."]
    async with working(project(tmp_path), script, mode="ask", approve=approve) as (agent, _):
        await finished(agent, "look")
    assert asked == ["echo 1", "echo 2"]


async def test_without_anybody_to_ask_it_ends_there(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, [RUN], mode="ask", approve=None) as (agent, _):
        events = await events_of(agent.turn("look"))
        last = events[-1]
        assert isinstance(last, Finished) and last.reason == "permission" and "echo 1" in last.why
        assert [event.ok for event in events if isinstance(event, ToolAnswered)] == [False]
        assert is_whole(agent._desk.memory.entries)  # type: ignore[union-attr]


async def test_read_only_refuses_edits_and_goes_on(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, [FIX, "DONE: I may not."], mode="read-only", approve=None) as (agent, fake):
        last = await finished(agent, "repair it")
        assert "not allowed in read-only mode" in prompt(fake)
    assert last.reason == "done" and (root / "calc.py").read_text() == CALC


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (["```bash\nfalse\n```"], "same result"),
        ([""], "could not be understood"),
        ([FIX.replace("a + b", f"{i} +") for i in range(9)], "edits in a row"),
        ([Answer(["x", *["word "] * 400])], "could not be understood"),
    ],
)
async def test_bounds_end_a_turn(tmp_path: Path, script: list[str | Answer], why: str) -> None:
    root = project(tmp_path, {"calc.py": CALC})
    (root / "calc.py").write_text(CALC)
    async with working(root, script) as (agent, _):
        last = await finished(agent, "x calc.py")
    assert last.reason == "gave_up" and why in last.why


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (Bounds(steps=2), "2 steps"),
        (Bounds(output_tokens=5), "tokens"),
        (Bounds(seconds=1e-9), "0 s, the limit"),
    ],
)
async def test_numbers_end_a_turn(tmp_path: Path, bounds: Bounds, why: str) -> None:
    count = iter(range(100))
    script = lambda create: f"```bash\necho {next(count)}\n```"  # noqa: E731
    async with working(project(tmp_path), script, bounds=bounds) as (agent, _):
        last = await finished(agent, "x")
    assert last.reason == "gave_up" and why in last.why


async def test_an_engine_that_fails_is_the_end_and_the_session_goes_on(tmp_path: Path) -> None:
    broken = Answer(["half"], error=Error("engine_failed", "it broke"))
    async with working(project(tmp_path), [broken, "Hello."]) as (agent, fake):
        last = await finished(agent, "one")
        assert (last.reason, last.why) == ("failed", "it broke")
        assert (await finished(agent, "two")).summary == "Hello."
        roles = [message.role for message in fake.creates[-1].messages or []]
        assert roles[-3:] == ["user", "assistant", "user"]


async def test_cancelled_anywhere_the_session_stays_whole(tmp_path: Path) -> None:
    """At every event of a turn: what was changed can be undone, every call has its result, and it goes on."""
    root = project(tmp_path)
    before = tree(root)

    def script(create: Create) -> str:
        said = (create.messages or [])[-1].content or ""
        if "Task: next" in said:
            return "Fine."
        return (
            FIX if "exit code 0" in said.rpartition("Task:")[2] else "```bash\necho > made; cat calc.py\n```"
        )

    async with working(root, script, checks=[MENDED]) as (agent, _):
        total = len(await events_of(agent.turn("first")))
        await agent.undo()
        assert tree(root) == before and total > 15
        for stop in range(1, total):
            turn = agent.turn("first")
            seen = []
            async for event in turn:
                seen.append(event)
                if len(seen) == stop:
                    turn.cancel()
            last = seen[-1]
            assert isinstance(last, Finished), stop
            assert last.reason == "cancelled" or len(seen) <= stop  # the last event is too late
            assert agent._desk is not None and is_whole(agent._desk.memory.entries)
            if agent._desk.checkpoints.done:
                await agent.undo()
            assert tree(root) == before, stop
        assert (await finished(agent, "next")).summary == "Fine."


async def test_a_task_that_is_cancelled_leaves_no_turn_behind(tmp_path: Path) -> None:
    async with working(project(tmp_path), Answer(["x"], then="hang")) as (agent, fake):
        task = asyncio.create_task(events_of(agent.turn("x")))
        while not fake.creates:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert agent.busy
        with pytest.raises(RuntimeError, match="a turn is running"):
            agent.turn("y")
        await agent.aclose()
        assert not agent.busy and fake.cancels
