"""`ultra-chat -p` as a process: what the agent does, what is printed where, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from agent_kit import CALC, FIX, FIXED, project
from pty_kit import Terminal
from ultra_sdk.protocol import Error
from ultra_sdk.testing import Answer, FakeEngine, Script

COMMAND = [sys.executable, "-c", "import sys; from ultra_tui.cli import main; sys.exit(main())"]
LOOK = "```bash\ncat calc.py\n```"


def environment(fake: FakeEngine, root: Path) -> dict[str, str]:
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "ULTRA_DATA_DIR": str(root.parent / "data")}
    return {**os.environ, **paths, **fake.env}


def run(root: Path, script: Script, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    with FakeEngine(script) as fake:
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            cwd=root,
            env=environment(fake, root),
            capture_output=True,
            text=True,
            timeout=60,
        )


def test_a_task_is_done_and_verified(tmp_path: Path) -> None:
    root = project(tmp_path)
    done = run(root, [LOOK, FIX], "-p", "mend it", "--mode", "auto")
    assert (done.returncode, done.stdout) == (0, "add adds.\n")
    assert (root / "calc.py").read_text() == FIXED
    lines = done.stderr.splitlines()
    assert (
        lines[:3] == ["$ cat calc.py", "± edited calc.py +1 -1", lines[2]] and "unittest passed" in lines[2]
    )
    assert (
        lines[-1].startswith("✓ verified by the project's checks · 2 steps · ")
        and "Traceback" not in done.stderr
    )


@pytest.mark.parametrize(
    ("script", "arguments", "code", "said"),
    [
        ([FIX, "```bash\ntrue\n```", "DONE: so."], ["--mode", "auto"], 2, "not verified"),
        (["```bash\nfalse\n```"], ["--mode", "auto"], 3, "same result"),
        (["```bash\necho 1\n```"], [], 4, "permission needed: run echo 1?"),
        ([FIX], ["--mode", "auto-edit"], 2, "no check of the project could be run"),
        ([Answer(["x"], error=Error("engine_failed", "it broke"))], [], 5, "it broke"),
        (["It adds."], [], 0, "done · 1 step"),
        ([FIX, "DONE: I may not."], ["--mode", "read-only"], 2, "no edit was made"),
        ([FIX], ["--mode", "auto", "--check", "grep -q 'a + b' calc.py"], 0, "verified by"),
    ],
)
def test_exit_codes(tmp_path: Path, script: Script, arguments: list[str], code: int, said: str) -> None:
    root = project(tmp_path, {"calc.py": CALC})
    done = run(root, script, "-p", "@calc.py: do it", *arguments)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_json_is_one_event_a_line_without_secrets(tmp_path: Path) -> None:
    root = project(tmp_path, {".env": "TOKEN_X=hunter22secret\n"})
    script = ["```bash\necho hunter22secret\n```", "DONE: It says hunter22secret."]
    done = run(root, script, "-p", "look", "--json", "--mode", "auto")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and done.stderr == "" and "hunter22secret" not in done.stdout
    kinds = [event["type"] for event in events]
    assert kinds[0] == "began" and kinds[-1] == "done" and {"step", "text", "call", "result"} <= set(kinds)


def test_the_codes_are_documented(tmp_path: Path) -> None:
    with FakeEngine() as fake:
        done = subprocess.run(
            [*COMMAND, "--help"], env=environment(fake, tmp_path / "x"), capture_output=True, text=True
        )
    for code in ("0 ", "2 ", "3 ", "4 ", "5 ", "64", "130"):
        assert f"\n  {code}" in done.stdout


def test_a_session_is_resumed(tmp_path: Path) -> None:
    root = project(tmp_path)
    refused = run(root, "x", "-p", "a", "--resume")
    assert refused.returncode == 5 and "there is no session to resume" in refused.stderr
    run(root, "My name is Ada.", "-p", "first")
    with FakeEngine("Ada.") as fake:
        env = environment(fake, root)
        subprocess.run([*COMMAND, "-p", "second", "--resume"], cwd=root, env=env, stdin=subprocess.DEVNULL)
        texts = [message.content or "" for message in fake.creates[0].messages or []]
    assert any("My name is Ada." in text for text in texts) and texts[-1].endswith("Task: second")
    wrong = run(root, "x", "-p", "a", "--resume", "nosuch")
    assert wrong.returncode == 5 and "there is no session nosuch" in wrong.stderr


def test_interrupted_the_command_is_stopped_and_the_code_is_130(tmp_path: Path) -> None:
    root = project(tmp_path)
    with FakeEngine("```bash\necho > begun; sleep 1000\n```") as fake:
        process = subprocess.Popen(
            [*COMMAND, "-p", "x", "--mode", "auto"],
            cwd=root,
            env=environment(fake, root),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not (root / "begun").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "■ stopped" in said and "Traceback" not in said


@pytest.mark.parametrize(("key", "code", "content"), [("y", 2, FIXED), ("n", 2, CALC)])
def test_on_a_terminal_a_person_is_asked(tmp_path: Path, key: str, code: int, content: str) -> None:
    root = project(tmp_path, {"calc.py": CALC})
    with FakeEngine([FIX, "DONE: so.", "DONE: so."]) as fake:
        inside = ["sh", "-c", 'cd "$0" && "$@"', str(root), *COMMAND, "-p", "mend @calc.py"]
        with Terminal(inside, environment(fake, root)) as terminal:
            terminal.wait_for("edit calc.py? [y]es, [a]lways, [n]o:")
            assert "+    return a + b" in terminal.text
            terminal.send(f"{key}\r")
            terminal.wait_for(f"exit={code}")
    assert (root / "calc.py").read_text() == content
