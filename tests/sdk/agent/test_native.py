from __future__ import annotations

from pathlib import Path

from agent_kit import CALC, FIXED, events_of, project, working
from ultra_sdk.agent import Finished, Profile, ToolCalled
from ultra_sdk.protocol import ToolCall
from ultra_sdk.testing import Answer

TOOLS = Profile(30, "tools", "blocks")
BLOCKS = "<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n"


def call(name: str, **arguments: str) -> ToolCall:
    import json

    return ToolCall(0, "x", name, json.dumps(arguments))


async def test_tool_calls_of_the_server_are_run_and_answered_in_their_form(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = [
        Answer(["I look.", call("read", path="calc.py")]),
        Answer([call("edit", path="calc.py", blocks=BLOCKS)]),
        Answer([call("done", summary="add adds.")]),
    ]
    async with working(root, script, model="big-30b") as (agent, fake):
        events = await events_of(agent.turn("mend the sum"))
        last = events[-1]
        assert isinstance(last, Finished)
        assert (last.reason, last.verified, last.summary) == ("done", True, "add adds.")
        assert (root / "calc.py").read_text() == FIXED
        assert [each.tool for each in events if isinstance(each, ToolCalled)] == ["read", "edit", "check"]
        assert {tool.name for tool in fake.creates[0].tools} >= {"read", "edit", "bash", "done"}
        messages = fake.creates[1].messages or []
        asked, answered = messages[-2], messages[-1]
        assert asked.role == "assistant" and asked.content == "I look." and asked.tool_calls
        assert answered.role == "tool" and answered.tool_call_id == asked.tool_calls[0].id
        assert "    2      return a - b" in (answered.content or "")


async def test_a_broken_call_is_told_and_text_in_other_forms_is_understood(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = [
        Answer([ToolCall(0, "x", "read", "{", error="the call is cut off")]),
        f"calc.py\n{BLOCKS}",
        "It is done.",
    ]
    async with working(root, script, profile=TOOLS) as (agent, fake):
        last = (await events_of(agent.turn("mend the sum")))[-1]
        assert isinstance(last, Finished) and last.verified is True
        assert "the call is cut off" in ((fake.creates[1].messages or [])[-1].content or "")
    assert (root / "calc.py").read_text() != CALC
