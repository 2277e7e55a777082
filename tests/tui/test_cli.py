"""The command as a process: what goes to stdout, what to stderr, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ultra_sdk.protocol import Error
from ultra_sdk.testing import Answer, FakeEngine
from ultra_tui import __version__

COMMAND = [sys.executable, "-c", "import sys; from ultra_tui.cli import main; sys.exit(main())"]
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(*arguments: str, fake: FakeEngine | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = {**ENV, **(fake.env if fake else {})}
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, env=env, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with FakeEngine("The answer\nis 42.") as engine:
        yield engine


def test_the_answer_and_nothing_else_is_on_stdout(fake: FakeEngine) -> None:
    done = run(
        "-p",
        "what?",
        "--system",
        "Be brief.",
        "--max-tokens",
        "9",
        "--temperature",
        "0.5",
        "--seed",
        "7",
        fake=fake,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "The answer\nis 42.\n", "")
    create = fake.creates[0]
    assert [(m.role, m.content) for m in create.messages or []] == [
        ("system", "Be brief."),
        ("user", "what?"),
    ]
    assert (create.max_tokens, create.sampling.temperature, create.sampling.seed) == (9, 0.5, 7)


def test_what_is_piped_in_follows_the_question_as_context(fake: FakeEngine) -> None:
    run("--chat", "-p", "explain", fake=fake, stdin="code\n")
    run("--chat", "-p", "-", fake=fake, stdin="from stdin")
    assert [create.messages and create.messages[0].content for create in fake.creates] == [
        "explain\n\ncode\n",
        "from stdin",
    ]


def test_a_server_is_named_by_its_socket(fake: FakeEngine) -> None:
    with FakeEngine("other") as other:
        done = run("--chat", "-p", "q", "--url", other.unix, fake=other)
    assert done.stdout == "other\n" and not fake.creates


def test_json_prints_one_event_a_line_with_the_last_one(fake: FakeEngine) -> None:
    done = run("--chat", "-p", "what?", "--json", fake=fake)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [event["type"] for event in events[:2]] == ["queued", "prefill"]
    assert "".join(event["text"] for event in events if event["type"] == "delta") == "The answer\nis 42."
    assert events[-1]["type"] == "done" and events[-1]["usage"]["output_tokens"] == 3


def test_a_failure_is_one_line_and_code_1() -> None:
    with FakeEngine(Answer(["half"], error=Error("engine_failed", "it broke\nbadly"))) as fake:
        done = run("--chat", "-p", "q", fake=fake)
    assert (done.returncode, done.stdout, done.stderr) == (1, "half\n", "ultra-chat: it broke badly\n")


def test_a_failure_in_json_is_still_one_line_on_stderr() -> None:
    with FakeEngine(Answer(error=Error("prompt_too_long", "5,000 tokens, 4,096 fit"))) as fake:
        done = run("--chat", "-p", "q", "--json", fake=fake)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["type"], last["error"]["code"]) == ("failed", "prompt_too_long")
    assert (done.returncode, done.stderr) == (1, "ultra-chat: 5,000 tokens, 4,096 fit\n")


def test_no_server_is_one_line_and_code_1() -> None:
    done = run("--chat", "-p", "q", "--url", "/nowhere/at/all.sock")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("ultra-chat: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["-p", ""], ["-p"], ["--json"], ["--max-tokens", "0", "-p", "q"], ["--temperature", "nan", "-p", "q"]]
    + [["--seed", "x", "-p", "q"], ["--nosuch"], [], ["--chat", "--mode", "auto", "-p", "q"]]
    + [["--system", "x", "--resume", "--", "-p", "q"], ["--mode", "yolo", "-p", "q"]],
)
def test_wrong_usage_is_code_64(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 64 and done.stdout == "" and done.stderr
    assert "Traceback" not in done.stderr


def test_version() -> None:
    assert run("--version").stdout == f"ultra-chat {__version__}\n"


def test_interrupted_is_code_130_and_cancels_the_request() -> None:
    with FakeEngine(Answer(["half"], then="hang")) as fake:
        process = subprocess.Popen(
            [*COMMAND, "--chat", "-p", "q"],
            env={**ENV, **fake.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.read(4) == b"half"
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
        assert (process.returncode, rest) == (130, b"\n")
        assert fake.cancels == [fake.creates[0].id]


def test_a_reader_that_leaves_is_no_error() -> None:
    with FakeEngine(Answer(["word "] * 2000, delay=0.001)) as fake:
        process = subprocess.Popen(
            [*COMMAND, "--chat", "-p", "q"],
            env={**ENV, **fake.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(5)
        process.stdout.close()
        assert process.wait(timeout=30) == 0
        assert process.stderr.read() == b""
        process.stderr.close()
