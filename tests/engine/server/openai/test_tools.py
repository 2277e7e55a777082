"""Tools and reasoning through OpenAI's API: as its own client sees them, and chunk by chunk."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from serving import serving
from ultra_engine.request import CallPiece
from ultra_engine.testing import Reply, Thought

READ = {"name": "read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}
SCRIPT = Reply(
    [
        Thought("Let me "),
        Thought("see."),
        "I read it.",
        CallPiece(0, "c1", "read"),
        CallPiece(0, arguments='{"path": '),
        CallPiece(0, arguments='"a.py"}'),
        CallPiece(1, arguments="<tool_call></tool_call>", error="the tool call is empty"),
        CallPiece(2, "c2", "read", "{}"),
    ]
)
MESSAGES: Any = [{"role": "user", "content": "hi"}]
TOOLS: Any = [{"type": "function", "function": READ}]


async def test_openais_own_client_calls_tools() -> None:
    openai = pytest.importorskip("openai")
    async with serving(SCRIPT, openai=True) as served:
        async with openai.AsyncOpenAI(
            base_url=f"{served.http}/v1",
            api_key=served.claim.token,
            max_retries=0,
            http_client=httpx.AsyncClient(trust_env=False),
        ) as client:
            asked = {"model": "any", "messages": MESSAGES, "tools": TOOLS, "reasoning_effort": "high"}
            [choice] = (await client.chat.completions.create(**asked)).choices
            assert choice.finish_reason == "tool_calls"
            assert [(call.id, call.type) for call in choice.message.tool_calls] == [
                ("c1", "function"),
                ("c2", "function"),
            ]
            assert choice.message.tool_calls[0].function.name == "read"
            assert json.loads(choice.message.tool_calls[0].function.arguments) == {"path": "a.py"}
            assert choice.message.content == "I read it.<tool_call></tool_call>"
            assert choice.message.reasoning_content == "Let me see."
            async with client.chat.completions.stream(**asked) as stream:
                async for _ in stream:
                    pass
                [streamed] = (await stream.get_final_completion()).choices
            assert [call.function.arguments for call in streamed.message.tool_calls] == [
                '{"path": "a.py"}',
                "{}",
            ]
            assert streamed.finish_reason == "tool_calls"
            told = {"role": "tool", "tool_call_id": "c1", "content": "text"}
            history = [*MESSAGES, choice.message.model_dump(exclude_none=True), told]
            await client.chat.completions.create(model="any", messages=history)
    first, _, last = served.engine.requests
    assert first.tools == (READ,) and first.reasoning == "high" and last.tools == ()
    assert last.messages is not None
    assert last.messages[1]["tool_calls"][0]["function"]["name"] == "read"
    assert last.messages[1]["reasoning"] == "Let me see."
    assert last.messages[2] == {"role": "tool", "content": "text", "tool_call_id": "c1"}


async def test_the_chunks_of_a_stream() -> None:
    async with serving(SCRIPT, openai=True) as served:
        async with httpx.AsyncClient(base_url=served.http, headers=served.headers, trust_env=False) as client:
            body = {"messages": MESSAGES, "tools": TOOLS, "stream": True}
            answer = await client.post("/v1/chat/completions", json=body)
    chunks = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Let me see."
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", ())]
    assert pieces == [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"path": '}},
        {"index": 0, "function": {"arguments": '"a.py"}'}},
        {"index": 1, "id": "c2", "type": "function", "function": {"name": "read", "arguments": "{}"}},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "tool_calls"


async def test_an_answer_of_calls_alone_has_no_content() -> None:
    async with serving(Reply([CallPiece(0, "c1", "read", "{}")]), openai=True) as served:
        async with httpx.AsyncClient(base_url=served.http, headers=served.headers, trust_env=False) as client:
            body = {"messages": MESSAGES, "tools": TOOLS}
            [choice] = (await client.post("/v1/chat/completions", json=body)).json()["choices"]
    assert choice["message"]["content"] is None and len(choice["message"]["tool_calls"]) == 1
