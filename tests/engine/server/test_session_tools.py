"""Tools and reasoning in the protocol of one connection."""

from __future__ import annotations

import msgspec
from ultra_engine import request as engine
from ultra_engine.face import EngineInfo
from ultra_engine.server.session import Session, Submit
from ultra_sdk.protocol import ChatMessage, Create, Delta, Hello, ServerMessage, ToolCall, ToolSpec

INFO = EngineInfo("m", "llama", "reference", 512, 1000, 0, 0.0, capabilities=("tools",))


def test_tools_go_to_the_engine_unless_none_may_be_called() -> None:
    read = ToolSpec("read", "Read.", {"type": "object"})
    messages = [
        ChatMessage("assistant", tool_calls=[ToolCall(0, "c1", "read", "{}")], reasoning="hm"),
        ChatMessage("tool", "text", tool_call_id="c1"),
    ]
    session = Session(INFO, "s1", "test")
    [order] = session.receive(
        msgspec.json.encode(Create("a", messages=messages, tools=[read], reasoning="low")), 0.0
    )
    assert isinstance(order, Submit)
    assert order.request.tools == (
        {"name": "read", "description": "Read.", "parameters": {"type": "object"}},
    )
    assert order.request.reasoning == "low" and order.request.messages == [
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "name": "read", "arguments": "{}"}],
            "reasoning": "hm",
        },
        {"role": "tool", "content": "text", "tool_call_id": "c1"},
    ]
    create = Create("b", messages=messages, tools=[read], tool_choice="none")
    [order] = session.receive(msgspec.json.encode(create), 0.0)
    assert isinstance(order, Submit) and order.request.tools == ()


def test_reasoning_and_calls_are_sent_beside_the_text() -> None:
    session = Session(INFO, "s1", "test")
    session.receive(msgspec.json.encode(Create("a", messages=[ChatMessage("user", "x")])), 0.0)
    hello = msgspec.json.decode(session.outbox.flush()[0], type=ServerMessage)
    assert isinstance(hello, Hello) and hello.capabilities == ["tools"]
    say = session.event
    say("a", engine.Delta(0, 0, "", (1,), reasoning="hm"), 0.0)
    say("a", engine.Delta(0, 1, "So:", (2,)), 0.0)
    say("a", engine.Delta(0, 2, "", (3,), calls=(engine.CallPiece(0, "c1", "read"),)), 0.0)
    say("a", engine.Delta(0, 3, "", (), calls=(engine.CallPiece(0, arguments="{}"),)), 0.0)
    say("a", engine.Delta(0, 3, " Done", (4,)), 0.0)
    say("a", engine.Delta(0, 4, "", (), calls=(engine.CallPiece(1, error="none"),)), 0.0)
    say("a", engine.Delta(0, 4, "", ()), 0.0)
    assert [msgspec.json.decode(data, type=ServerMessage) for data in session.outbox.flush()] == [
        Delta("a", 1, 0, 0, "So:", 3, reasoning="hm", tool_calls=[ToolCall(0, "c1", "read", "{}")]),
        Delta("a", 2, 0, 3, " Done", 1, tool_calls=[ToolCall(1, error="none")]),
    ]
