"""OpenAI's API over a real socket, with a plain HTTP client and with OpenAI's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from serving import Served, serving
from ultra_engine.request import Failed
from ultra_engine.testing import Reply, Script

HI = {"model": "any", "messages": [{"role": "user", "content": "hi"}]}
SLOW = Reply([f"w{number} " for number in range(500)], delay=0.02)


@contextlib.asynccontextmanager
async def http(
    script: Script | None = None, **settings: Any
) -> AsyncIterator[tuple[Served, httpx.AsyncClient]]:
    async with serving(script, openai=True, **settings) as served:
        async with httpx.AsyncClient(
            base_url=served.http, headers=served.headers, trust_env=False, timeout=20
        ) as client:
            yield served, client


async def chunks_of(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> tuple[list[Any], bool]:
    """The events of a stream, and whether it said that it was done."""
    chunks: list[Any] = []
    async with client.stream("POST", path, json={**body, "stream": True}) as response:
        assert response.status_code == 200 and response.headers["content-type"].startswith(
            "text/event-stream"
        )
        async for line in response.aiter_lines():
            if line == "data: [DONE]":
                return chunks, True
            if line:
                chunks.append(json.loads(line.removeprefix("data: ")))
    return chunks, False


async def test_a_whole_answer() -> None:
    async with http(Reply(["Hel", "lo"])) as (served, client):
        answer = (await client.post("/v1/chat/completions", json={**HI, "n": 2})).json()
        assert answer["object"] == "chat.completion" and answer["model"] == "scripted"
        assert [choice["index"] for choice in answer["choices"]] == [0, 1]
        for choice in answer["choices"]:
            assert choice["message"] == {"role": "assistant", "content": "Hello"}
            assert (choice["finish_reason"], choice["logprobs"]) == ("stop", None)
        assert answer["usage"]["prompt_tokens"] == 1 and answer["usage"]["completion_tokens"] == 4
        assert answer["usage"]["total_tokens"] == 5
        assert served.engine.requests[0].sampling.temperature == 1.0, "OpenAI's default"


async def test_a_stream_has_one_finish_reason_and_says_done() -> None:
    async with http(Reply(["Hel", "", "lo"])) as (_, client):
        chunks, done = await chunks_of(client, "/v1/chat/completions", {**HI, "max_tokens": 9})
    assert done and len({(chunk["id"], chunk["object"], chunk["model"]) for chunk in chunks}) == 1
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "Hello"
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
    assert choices[-1]["finish_reason"] == "stop" and choices[-1]["delta"] == {}
    assert not any("usage" in chunk for chunk in chunks)


async def test_usage_comes_once_last_and_only_when_asked_for() -> None:
    async with http() as (_, client):
        for path, body in (("/v1/chat/completions", HI), ("/v1/completions", {"prompt": "hi"})):
            asked = {**body, "stream_options": {"include_usage": True}}
            chunks, done = await chunks_of(client, path, asked)
            assert done and chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 4
            assert all(chunk["usage"] is None and chunk["choices"] for chunk in chunks[:-1])


async def test_completions_take_text_and_tokens() -> None:
    async with http() as (served, client):
        for prompt in ("Once", ["Once"], [1, 2, 3], [[1, 2, 3]]):
            answer = (await client.post("/v1/completions", json={"prompt": prompt})).json()
            assert answer["choices"][0]["text"] == "Hello, world." and answer["object"] == "text_completion"
        assert [request.prompt for request in served.engine.requests] == ["Once", "Once", None, None]
        chunks, done = await chunks_of(client, "/v1/completions", {"prompt": "x"})
        assert done and "".join(chunk["choices"][0]["text"] for chunk in chunks) == "Hello, world."


@pytest.mark.parametrize("stream", [False, True])
async def test_what_the_engine_refuses_has_a_status_of_its_own(stream: bool) -> None:
    failures = iter([Failed("out_of_memory", "no room"), Failed("shutting_down", "bye", retryable=True)])
    async with http(lambda _: Reply((), fail=next(failures))) as (_, client):
        long = {**HI, "messages": [{"role": "user", "content": "word " * 5000}], "stream": stream}
        refused = await client.post("/v1/chat/completions", json=long)
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "context_length_exceeded"
        assert "5000" in refused.json()["error"]["message"]
        if not stream:  # in a stream these come after its head, see below
            failed = await client.post("/v1/chat/completions", json=HI)
            assert (failed.status_code, failed.json()["error"]["type"]) == (500, "server_error")
            leaving = await client.post("/v1/chat/completions", json=HI)
            assert leaving.status_code == 503 and leaving.headers["retry-after"] == "1"


async def test_a_failure_in_the_middle_of_a_stream_is_an_error_event_and_no_done() -> None:
    async with http(Reply(["half"], crash=True)) as (_, client):
        chunks, done = await chunks_of(client, "/v1/chat/completions", HI)
    assert not done and chunks[-1]["error"]["code"] == "engine_failed"


@pytest.mark.parametrize("stream", [False, True])
async def test_mlx_openai_server_269_hanging_up_cancels_in_the_engine(stream: bool) -> None:
    async with http(SLOW) as (served, client):
        body = {**HI, "stream": stream}
        asking = [asyncio.create_task(client.post("/v1/chat/completions", json=body)) for _ in range(3)]
        async with asyncio.timeout(10):
            while len(served.engine.requests) < 3:
                await asyncio.sleep(0.01)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        async with asyncio.timeout(8):  # each answer takes 10 s
            await served.server.bridge.idle.wait()
        assert len(served.engine.cancels) == 3


async def test_shutdown_ends_a_running_stream_with_an_error() -> None:
    async with http(SLOW) as (served, client):
        task = asyncio.create_task(chunks_of(client, "/v1/chat/completions", HI))
        async with asyncio.timeout(10):
            while not served.engine.requests:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        served.server.stop()
        chunks, done = await task
        assert not done and chunks[-1]["error"]["code"] == "shutting_down"
        await served.task


REFUSED = [
    ({"Host": "evil.example"}, "/v1/models", 421),
    ({"Origin": "null"}, "/v1/models", 403),
    ({"Origin": "http://localhost:3000"}, "/health", 403),
    ({}, "/v1/files", 404),
    ({"Authorization": ""}, "/v1/models", 401),
    ({"Authorization": "Bearer wrong"}, "/v1/models", 401),
]


async def test_cve_2026_59950_http_has_the_same_gate() -> None:
    async with http() as (served, client):
        for headers, path, status in REFUSED:
            refused = await client.get(path, headers=headers)
            assert refused.status_code == status, (headers, path)
            assert refused.json()["error"]["message"]
            assert "uvicorn" not in str(refused.headers)
        preflight = await client.options("/v1/chat/completions", headers={"Origin": "https://evil.example"})
        assert preflight.status_code == 403 and "access-control-allow-origin" not in preflight.headers
        health = await client.get("/health", headers={"Authorization": ""})
        assert health.text == "ok"
        assert served.engine.requests == []


async def test_wrong_method_and_too_big_a_body_get_an_error_object() -> None:
    async with http() as (_, client):
        method = await client.get("/v1/chat/completions")
        assert method.status_code == 405 and method.json()["error"]["message"] == "Method Not Allowed"
        big = await client.post("/v1/chat/completions", content=b" " * (9 * 2**20))
        assert big.status_code == 413 and "8388608" in big.json()["error"]["message"]


async def test_openais_own_client() -> None:
    openai = pytest.importorskip("openai")
    async with serving(Reply(["Hel", "lo"]), openai=True) as served:
        async with openai.AsyncOpenAI(
            base_url=f"{served.http}/v1",
            api_key=served.claim.token,
            max_retries=0,
            http_client=httpx.AsyncClient(trust_env=False),
        ) as client:
            [model] = (await client.models.list()).data
            messages = [{"role": "user", "content": "hi"}]
            answer = await client.chat.completions.create(model=model.id, messages=messages)
            assert answer.choices[0].message.content == "Hello"
            stream = await client.chat.completions.create(model=model.id, messages=messages, stream=True)
            assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "Hello"
            with pytest.raises(openai.BadRequestError) as bad:
                await client.chat.completions.create(model=model.id, messages=messages, temperature=-1)
            assert bad.value.param == "temperature"
