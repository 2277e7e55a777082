"""Tools and reasoning through the client: what is sent, and what comes back, kept apart from the answer."""

from __future__ import annotations

import msgspec
import pytest
from ultra_sdk import ChatMessage, Client, Delta, Result, ToolCall, ToolSpec, connect
from ultra_sdk.client import build
from ultra_sdk.protocol import Create
from ultra_sdk.testing import Answer, FakeEngine, Thought

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
SCRIPT = Answer(
    [
        Thought("Let me "),
        Thought("see."),
        "I read it.",
        ToolCall(0, "c1", "read", '{"path": '),
        ToolCall(0, arguments='"a.py"}'),
        ToolCall(1, "c2", "read", '{"path": "ha', error="a string is cut off"),
    ]
)


def dial(fake: FakeEngine) -> Client:
    return connect(unix=fake.unix, token=fake.token)


async def test_an_answer_with_reasoning_and_calls() -> None:
    with FakeEngine(SCRIPT) as fake:
        async with dial(fake) as engine:
            assert engine.info.capabilities == ["tools", "reasoning"]
            result = await engine.generate("hi", tools=[READ], reasoning="high", n=2)
    assert (result.text, result.reasoning, result.finish) == ("I read it.", "Let me see.", "tool_calls")
    assert result.tool_calls == [ToolCall(0, "c1", "read", '{"path": "a.py"}')]
    assert result.tool_calls[0].parse() == {"path": "a.py"}
    for sample in result.samples:
        [broken] = sample.broken_calls
        assert broken.error == "a string is cut off" and sample.token_count == 6
        with pytest.raises(msgspec.DecodeError):
            broken.parse()
    assert ToolCall(0, "c", "ls").parse() == {}
    [create] = fake.creates
    assert (create.tools, create.tool_choice, create.reasoning) == ([READ], "auto", "high")


async def test_the_text_is_the_answer_alone() -> None:
    with FakeEngine(SCRIPT) as fake:
        async with dial(fake) as engine:
            async with engine.stream("hi", tools=[READ]) as stream:
                assert "".join([piece async for piece in stream.text]) == "I read it."
                assert stream.reasoning_so_far() == "Let me see."
            async with engine.stream("hi") as stream:
                assert "".join([piece async for piece in stream.reasoning]) == "Let me see."
                assert [call.id for call in stream.tool_calls_so_far()] == ["c1", "c2"]


async def test_deltas_keep_reasoning_before_text_before_calls() -> None:
    again = Answer([Thought("a"), "b", Thought("c"), ToolCall(0, "c1", "ls", "{}"), "d"])
    with FakeEngine(again) as fake:
        async with dial(fake) as engine, engine.stream("hi") as stream:
            result: Result = await stream.result()
            assert (result.text, result.reasoning) == ("bd", "ac")
        async with dial(fake) as engine, engine.stream("hi") as stream:
            deltas = [event async for event in stream if isinstance(event, Delta)]
    order = "".join(
        part
        for delta in deltas
        for part in (delta.reasoning, delta.text, *(call.name for call in delta.tool_calls))
    )
    assert order == "abclsd"


def test_openais_forms_are_taken_too() -> None:
    function = {"name": "read", "description": "Read a file.", "parameters": READ.parameters}
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call, {"name": "ls", "arguments": {"a": 1}}],
    }
    told = {"role": "tool", "tool_call_id": "c1", "content": "text"}
    create = build([asked, told], {"tools": [{"type": "function", "function": function}, function, READ]})
    assert create.tools == [READ, READ, READ]
    assert create.messages == [
        ChatMessage(
            "assistant",
            tool_calls=[
                ToolCall(0, "c1", "read", '{"path": "a"}'),
                ToolCall(1, name="ls", arguments='{"a":1}'),
            ],
        ),
        ChatMessage("tool", "text", tool_call_id="c1"),
    ]
    ours = ChatMessage("assistant", "", tool_calls=[ToolCall(0, "c1", "read")], reasoning="because")
    assert build([ours], {}).messages == [ours]
    assert build([{"role": "assistant", "tool_calls": [ToolCall(0, "c1", "read")]}], {}).messages == [
        ChatMessage("assistant", tool_calls=[ToolCall(0, "c1", "read")])
    ]


def test_what_is_not_asked_for_is_not_on_the_wire() -> None:
    assert msgspec.json.decode(msgspec.json.encode(build("hi", {"id": "a"}))) == {
        "type": "create",
        "id": "a",
        "messages": [{"role": "user", "content": "hi"}],
        "sampling": {},
    }
    assert msgspec.json.encode(Delta("a", 1, text="x", count=1)) == (
        b'{"type":"delta","id":"a","seq":1,"text":"x","count":1}'
    )
    assert Create("a").tools == []
