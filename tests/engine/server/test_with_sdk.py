"""The server and the SDK together."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from serving import server_process, serving
from ultra_engine.request import CallPiece
from ultra_engine.testing import Reply, Thought
from ultra_sdk import (
    ChatMessage,
    ConnectionLost,
    Delta,
    EngineFailed,
    InvalidRequest,
    PromptTooLong,
    Queued,
    QueueFull,
    RequestError,
    ToolCall,
    Unauthorized,
    connect,
)
from ultra_sdk.protocol.runtime import running

SLOW = Reply([f"w{number} " for number in range(500)], delay=0.02)


@pytest.mark.parametrize("port", [None, 0])
async def test_the_runtime_file_leads_to_the_server(port: int | None) -> None:
    async with serving(Reply(["a", "b"]), port=port) as served:
        for model in (None, "scripted", "Scripted"):
            async with connect(model, start=False) as engine:
                assert (await engine.generate("x")).text == "ab"
        place = {"unix": served.unix} if port is None else {"url": served.claim.place}
        async with connect(**place) as engine:  # type: ignore[arg-type]
            assert engine.info.model == "scripted"
        with pytest.raises(Unauthorized):
            async with connect(**place, token="wrong"):  # type: ignore[arg-type]
                pass


async def test_tools_and_reasoning_from_end_to_end() -> None:
    chunks = [Thought("hm"), "So:", CallPiece(0, "c1", "read"), CallPiece(0, arguments='{"path": "a"}')]
    async with serving(Reply(chunks)) as served, connect(unix=served.unix) as engine:
        assert engine.info.capabilities == ["tools", "reasoning"]
        result = await engine.generate("x", tools=[{"name": "read"}], n=2)
        for sample in result.samples:
            assert (sample.reasoning, sample.text, sample.token_count) == ("hm", "So:", 4)
            assert sample.tool_calls == [ToolCall(0, "c1", "read", '{"path": "a"}')]
            assert sample.finish == "tool_calls" == result.finish
        history = [
            ChatMessage("user", "x"),
            ChatMessage("assistant", result.text, tool_calls=result.tool_calls, reasoning=result.reasoning),
            ChatMessage("tool", "text", tool_call_id="c1"),
        ]
        await engine.generate(history, tools=[{"name": "read"}], tool_choice="none")
    first, second = served.engine.requests
    assert [tool["name"] for tool in first.tools] == ["read"] and second.tools == ()
    assert second.messages is not None and second.messages[1]["tool_calls"][0]["name"] == "read"


async def test_errors_arrive_as_their_class() -> None:
    def script(request: object) -> Reply:
        return Reply(["x"], crash=True)

    async with serving(script) as served:
        async with connect(unix=served.unix) as engine:
            with pytest.raises(InvalidRequest) as invalid:
                await engine.generate("x", temperature=-1.0)
            assert invalid.value.param == "temperature"
            with pytest.raises(PromptTooLong, match="5000 tokens"):
                await engine.generate("word " * 5000)
            with pytest.raises(EngineFailed):
                await engine.generate("x")


async def test_a_used_id_is_refused_and_never_runs_twice() -> None:
    async with serving() as served, connect(unix=served.unix) as engine:
        await engine.generate("x", id="same")
        with pytest.raises(InvalidRequest, match="used before"):
            await engine.generate("x", id="same")
        assert len(served.engine.requests) == 1


async def test_cancel_is_seen_while_tokens_flow() -> None:
    fast = Reply(["x"] * 20_000, delay=0.0005)
    async with serving(fast) as served, connect(unix=served.unix) as engine:
        async with engine.stream("x") as stream:
            await anext(stream.text)
            await stream.cancel()
            result = await stream.result()
        assert result.finish == "cancelled" and result.usage.output_tokens < 20_000
        assert len(served.engine.cancels) == 1


async def test_leaving_a_stream_stops_the_engine() -> None:
    async with serving(SLOW) as served, connect(unix=served.unix) as engine:
        async with engine.stream("x") as stream:
            await anext(stream.text)
        started = time.monotonic()
        async with asyncio.timeout(5):
            await served.server.bridge.idle.wait()
        assert time.monotonic() - started < 5
        assert len(served.engine.cancels) == 1


async def test_a_megabyte_of_prompt() -> None:
    async with serving(lambda r: Reply([str(len(r.prompt or ""))])) as served:
        async with connect(unix=served.unix) as engine:
            assert (await engine.generate(raw="x" * 1_000_000)).text == "1000000"


async def test_kill_9_during_a_stream_is_connection_lost_with_the_partial_text() -> None:
    with server_process("Reply([f'w{i} ' for i in range(500)], delay=0.02)") as process:
        async with connect(start=False) as engine, engine.stream("x") as stream:
            pieces = [await anext(stream.text) for _ in range(3)]
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(ConnectionLost) as lost:
                await stream.result()
            assert lost.value.partial.startswith("".join(pieces))
            assert len(lost.value.partial) < len("w100 ") * 500
        process.wait()
        assert running() == []


async def test_sigterm_during_a_stream_is_told_as_such() -> None:
    with server_process("Reply(['x'] * 500, delay=0.02)") as process:
        async with connect(start=False) as engine, engine.stream("x") as stream:
            await anext(stream.text)
            process.terminate()
            with pytest.raises(RequestError) as stopped:
                await stream.result()
            assert stopped.value.code == "shutting_down" and stopped.value.retryable


async def test_a_full_queue_can_be_retried() -> None:
    async with serving(SLOW, max_queue=1) as served:
        async with connect(unix=served.unix) as engine, connect(unix=served.unix) as other:
            async with engine.stream("runs") as runs:
                while not isinstance(await anext(runs), Delta):
                    pass
                waits = await engine.stream("waits").__aenter__()
                assert isinstance(await anext(waits), Queued)
                with pytest.raises(QueueFull) as full:
                    await other.generate("x")
                assert full.value.retryable
                await waits.aclose()


async def test_many_clients_with_many_streams_get_their_own_answers() -> None:
    async with serving(lambda r: Reply([r.prompt or ""] * 5)) as served:

        async def client(name: str) -> list[str]:
            async with connect(unix=served.unix) as engine:
                results = await asyncio.gather(*(engine.generate(raw=f"{name}{n};") for n in range(8)))
                return [result.text for result in results]

        answers = await asyncio.gather(*(client(name) for name in "abcdef"))
    assert answers == [[f"{name}{n};" * 5 for n in range(8)] for name in "abcdef"]
