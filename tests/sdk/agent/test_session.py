"""What outlives a turn: instructions, secrets, resuming, compaction, locks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from agent_kit import CALC, FIX, MENDED, allow, events_of, finished, project, prompt, working
from ultra_sdk.agent import (
    Agent,
    Finished,
    Loaded,
    Notice,
    Planned,
    ReasoningDelta,
    ToolAnswered,
)
from ultra_sdk.agent.conversation import is_whole
from ultra_sdk.agent.transcript import read_records
from ultra_sdk.protocol import Create, Error
from ultra_sdk.testing import Answer, Thought

LOOK = "```bash\ncat calc.py\n```"


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
