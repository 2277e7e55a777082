"""A real model through every room: engine alone, websocket, SDK, app, and `ultra-chat -p`. One question, one
greedy answer, the same text everywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from e2e.conftest import Served, runtime_folder, runtime_info
from engine.collect import open_engine, run
from tui_kit import ask, shown, until
from ultra_engine.weights.hub import resolve
from ultra_engine.weights.registry import TEST_MODEL
from ultra_sdk import connect
from ultra_sdk.errors import PromptTooLong
from ultra_tui.app import ChatApp
from ultra_tui.link import EngineLink
from ultra_tui.transcript.view import Transcript
from websockets.asyncio.client import unix_connect

QUESTION = "What is the capital of France? Answer in one short sentence."
MESSAGES = [{"role": "user", "content": QUESTION}]
LIMIT = 24


@pytest.fixture(scope="module")
def answer() -> str:
    """The engine's own answer, nothing between it and the test."""
    with open_engine(resolve(TEST_MODEL)) as engine:
        text = run(engine, messages=MESSAGES, max_tokens=LIMIT).text()
    assert "Paris" in text
    return text


async def test_over_the_websocket(served: Served, answer: str) -> None:
    """By hand, with the `websockets` library alone: the protocol as a stranger would speak it."""
    headers = {"Authorization": f"Bearer {served.info.token}"}
    async with unix_connect(
        served.info.unix, "ws://localhost/v1", subprotocols=["engine.v1"], additional_headers=headers
    ) as socket:
        assert json.loads(await socket.recv())["type"] == "hello"
        create = {"type": "create", "id": "q1", "messages": MESSAGES, "max_tokens": LIMIT}
        await socket.send(json.dumps(create))
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] not in ("done", "failed"):
            events.append(json.loads(await socket.recv()))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    deltas = [event for event in events if event["type"] == "delta"]
    assert "".join(delta.get("text", "") for delta in deltas) == answer
    assert sum(delta.get("count", 0) for delta in deltas) == events[-1]["usage"]["output_tokens"]


async def test_through_the_sdk(served: Served, answer: str) -> None:
    async with connect(unix=served.info.unix, token=served.info.token) as engine:
        async with engine.stream(messages=MESSAGES, max_tokens=LIMIT) as stream:
            parts = [part async for part in stream.text]
            result = await stream.result()
        assert "".join(parts) == result.text == answer and len(parts) > 1
        assert result.usage.output_tokens == len(parts) or result.finish == "stop"
        with pytest.raises(PromptTooLong, match="8191"):
            await engine.generate(messages=[{"role": "user", "content": "word " * 9000}])
        again = await engine.generate(messages=MESSAGES, max_tokens=LIMIT)
        assert again.text == answer


async def test_in_the_app(served: Served, answer: str) -> None:
    """The question is typed, the answer stands in the transcript."""

    def dial(_: object, status: Any) -> Any:
        return connect(unix=served.info.unix, token=served.info.token, on_status=status, start=False)

    app = ChatApp(EngineLink(dial), {"max_tokens": LIMIT, "temperature": 0.0})
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: app.session.meter.state == "ready")
        await ask(app, pilot, QUESTION)
        assert " ".join(answer.split()) in " ".join(shown(app.query_one(Transcript)).split())


def _ultra_chat(env: dict[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ultra_tui", "--chat", *arguments]
        + ["--max-tokens", str(LIMIT), "--temperature", "0"],
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_print_mode(served: Served, answer: str) -> None:
    done = _ultra_chat(served.env, "-p", QUESTION)
    assert (done.returncode, done.stdout, done.stderr) == (0, answer.strip() + "\n", "")


def test_print_mode_as_json(served: Served, answer: str) -> None:
    done = _ultra_chat(served.env, "-p", QUESTION, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and events[-1]["type"] == "done"
    assert "".join(e.get("text", "") for e in events if e["type"] == "delta") == answer


def test_a_server_is_started_when_none_runs(answer: str) -> None:
    """The first `ultra-chat` of a day: nothing runs, an answer comes all the same, and the server stays."""
    with runtime_folder() as (folder, env):
        done = _ultra_chat(env, "--model", TEST_MODEL, "-p", QUESTION)
        assert done.returncode == 0 and "Paris" in done.stdout
        info = runtime_info(folder)
        os.kill(info.pid, 0)
        assert _ultra_chat(env, "-p", QUESTION).stdout == done.stdout
        assert runtime_info(folder).pid == info.pid
