from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from agent_kit import CALC, FIX, FIXED, MENDED, TEST, allow, events_of, finished, project, prompt, working
from tree import tree
from ultra_sdk.agent import (
    Agent,
    Bounds,
    Checked,
    Edited,
    Finished,
    Loaded,
    Notice,
    PermissionAsked,
    Planned,
    ReasoningDelta,
    TextDelta,
    ToolAnswered,
    ToolCalled,
)
from ultra_sdk.agent.conversation import is_whole
from ultra_sdk.agent.events import Approval
from ultra_sdk.agent.transcript import read_records
from ultra_sdk.protocol import Create, Error
from ultra_sdk.testing import Answer, Thought

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
    async with working(root, [LOOK, FIX, "DONE: nothing."], mode="ask", approve=approve) as (agent, fake):
        last = await finished(agent, "repair the sum")
        assert "the user refused it" in prompt(fake)
    assert [request.tool for request in asked] == ["bash", "write"]
    assert asked[0].what == "cat calc.py" and asked[0].question.startswith("run cat calc.py?")
    assert "+    return a + b" in asked[1].diff and (root / "calc.py").read_text() == CALC
    assert last.verified is False and not last.changed


async def test_always_holds_for_the_same_command_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    async def approve(request: PermissionAsked) -> Approval:
        asked.append(request.what)
        return "always"

    script = [LOOK, LOOK, "```bash\ncat calc.py test_calc.py\n```", "DONE: seen."]
    async with working(project(tmp_path), script, mode="ask", approve=approve) as (agent, _):
        await finished(agent, "look")
    assert asked == ["cat calc.py", "cat calc.py test_calc.py"]


async def test_without_anybody_to_ask_it_ends_there(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, [LOOK], mode="ask", approve=None) as (agent, _):
        events = await events_of(agent.turn("look"))
        last = events[-1]
        assert isinstance(last, Finished) and last.reason == "permission" and "cat calc.py" in last.why
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


async def test_commands_of_the_person_are_undoable_and_told(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, "I see.", mode="ask") as (agent, fake):
        result = await agent.shell("echo hi > new.txt; cat new.txt")
        assert result.text == "exit code 0\nhi\n"
        await finished(agent, "look")
        assert "$ echo hi > new.txt; cat new.txt\nexit code 0\nhi" in prompt(fake)
        await agent.undo()
        assert not (root / "new.txt").exists()


async def test_instructions_and_skills_are_loaded_and_shown(tmp_path: Path) -> None:
    files = {
        "AGENTS.md": "\ufeffUse tabs.\n",
        "sub/AGENTS.md": "Use spaces.\n",
        "sub/a.py": "a = 1\n",
        ".agents/skills/deploy/SKILL.md": "\ufeff---\nname: deploy\ndescription: How to deploy.\n---\nbody\n",
        ".agents/skills/Bad/SKILL.md": "---\nname: Bad\ndescription: x\n---\n",
    }
    async with working(project(tmp_path, files), ["```bash\ncat sub/a.py\n```", "DONE: seen."]) as (
        agent,
        fake,
    ):
        events = await events_of(agent.turn("look"))
        system = (fake.creates[0].messages or [])[0].content or ""
    assert "Instructions of AGENTS.md:\nUse tabs." in system and "Use spaces" not in system
    assert "- deploy: How to deploy. (.agents/skills/deploy/SKILL.md)" in system and "body" not in system
    assert "Instructions of sub/AGENTS.md:\nUse spaces." in prompt(fake)
    loaded = [(event.kind, event.path) for event in events if isinstance(event, Loaded)]
    assert loaded == [
        ("instructions", "AGENTS.md"),
        ("skill", ".agents/skills/deploy/SKILL.md"),
        ("instructions", "sub/AGENTS.md"),
    ]
    assert any("lower-case" in event.text for event in events if isinstance(event, Notice))


async def test_secrets_are_in_no_event_and_no_transcript_but_the_model_sees_them(tmp_path: Path) -> None:
    root = project(tmp_path, {".env": "DB_PASSWORD=hunter22secret\n"})
    async with working(root, ["```bash\ncat .env\n```", "DONE: seen."]) as (agent, fake):
        events = await events_of(agent.turn("look"))
        (answer,) = [event for event in events if isinstance(event, ToolAnswered)]
        path = agent.transcript
        assert "hunter22secret" in prompt(fake)
    assert "hunter22secret" not in answer.text and "[redacted DB_PASSWORD]" in answer.text
    assert "hunter22secret" not in path.read_text() and path.stat().st_mode & 0o777 == 0o600


async def test_reasoning_and_plans_are_events(tmp_path: Path) -> None:
    words = "1. look at it\n2. mend it\n\n"
    script = [Answer([Thought("Hm."), words + LOOK]), "DONE: seen."]
    async with working(project(tmp_path), script) as (agent, _):
        events = await events_of(agent.turn("x"))
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["Hm."]
    assert [event.steps for event in events if isinstance(event, Planned)] == [("look at it", "mend it")]


async def test_named_checks_are_used(tmp_path: Path) -> None:
    root = project(tmp_path, {"calc.py": CALC})
    async with working(root, FIX, checks=[MENDED]) as (agent, _):
        last = await finished(agent, "mend calc.py")
    assert last.verified is True


async def test_resumed_it_knows_what_was_said_and_can_undo(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, [LOOK, FIX]) as (agent, _):
        await finished(agent, "mend the sum")
        session = agent.session
    async with working(root, "Yes.", session=session) as (agent, fake):
        await finished(agent, "and now?")
        said = [(message.role, message.content or "") for message in fake.creates[0].messages or []]
        assert said[-1] == ("user", said[-1][1]) and said[-1][1].endswith("Task: and now?")
        assert any("Task: mend the sum" in text for _, text in said)
        await agent.undo()
    assert (root / "calc.py").read_text() == CALC
    kinds = [record["type"] for record in read_records(agent.transcript)]
    assert kinds.count("session") == 2 and kinds.count("done") == 2


async def test_a_long_session_is_compacted_and_its_transcript_is_not(tmp_path: Path) -> None:
    root = project(tmp_path)
    count = iter(range(1000))

    def script(create: Create) -> str:
        if "sum up the conversation" in ((create.messages or [])[-1].content or ""):
            return "Numbers were printed."
        number = next(count)
        return f"```bash\nseq {number} {number + 300}\n```" if number < 30 else "DONE: enough."

    async with working(root, script, context_tokens=2048) as (agent, fake):
        events = await events_of(agent.turn("print numbers"))
        assert agent._desk is not None and is_whole(agent._desk.memory.entries)
        path = agent.transcript
    last = events[-1]
    assert isinstance(last, Finished) and last.reason == "done"
    hows = {getattr(event, "how", None) for event in events} - {None}
    assert hows
    longest = max(
        sum(len(message.content or "") for message in create.messages or []) for create in fake.creates
    )
    assert longest < 2048 * 8
    assert sum("\n300\n" in str(record.get("text")) for record in read_records(path)) >= 1
    assert "Task: print numbers" in "".join(
        message.content or "" for message in fake.creates[-1].messages or []
    )


async def test_a_prompt_that_the_engine_finds_too_long_is_cut(tmp_path: Path) -> None:
    long = Answer(error=Error("prompt_too_long", "too long"))
    async with working(project(tmp_path), [LOOK, long, "DONE: seen."]) as (agent, fake):
        last = await finished(agent, "look at it")
        assert last.reason == "done" and len(fake.creates) == 3
    async with working(project(tmp_path), [LOOK, long]) as (agent, fake):
        last = await finished(agent, "look at it")
        assert last.reason == "failed" and len(fake.creates) <= 5


async def test_two_agents_cannot_have_one_session(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, "Hi.") as (agent, _):
        other = Agent(agent.engine, root, session=agent.session, approve=allow, data=tmp_path / "data")
        last = await finished(other, "x")
        assert last.reason == "failed" and "open in another process" in last.why
        await other.aclose()


async def test_a_project_that_is_too_large_for_checkpoints_is_worked_on_all_the_same(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with working(root, "Hi.") as (agent, _):
        assert agent._desk is not None
        agent._desk.checkpoints._limits = type(agent._desk.checkpoints._limits)(paths=1)
        events = await events_of(agent.turn("x"))
    assert any("cannot be undone" in event.text for event in events if isinstance(event, Notice))
    assert isinstance(events[-1], Finished) and events[-1].reason == "done"


async def test_nothing_is_left_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    async with working(project(tmp_path), [LOOK, "DONE: seen."]) as (agent, _):
        await finished(agent, "x")
        assert [name for name in os.listdir(tmp_path / "tmp") if name.startswith("ultra-agent-")]
    assert not [name for name in os.listdir(tmp_path / "tmp") if name.startswith("ultra-agent-")]
