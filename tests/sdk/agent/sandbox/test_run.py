from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from sandbox_kit import LEVELS, Site, gone, running
from ultra_sdk.agent.errors import SandboxError
from ultra_sdk.agent.sandbox import run as run_module
from ultra_sdk.agent.sandbox.policy import Level
from ultra_sdk.agent.sandbox.run import run

SDK = Path(run_module.__file__).parents[3]
ORPHANS = [
    "sleep {mark} & echo done",
    "setsid sleep {mark} & echo done",
    "nohup sleep {mark} >/dev/null 2>&1 & disown; echo done",
    "(setsid bash -c 'sleep {mark} & sleep {mark} & wait' &) ; sleep 0.2; echo done",
    "python3 -c 'import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    'os.execvp("sleep", ["sleep", "{mark}"])\'; sleep 0.3; echo done',
    "trap '' TERM HUP INT; sleep {mark} & echo done",
]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path)


@pytest.fixture
def mark() -> str:
    """A number of seconds that nobody else sleeps."""
    return f"6{uuid.uuid4().int % 10**9}.5"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("command", ORPHANS)
def test_it_returns_when_the_command_ends_and_leaves_nothing(
    site: Site, level: Level, command: str, mark: str
) -> None:
    outcome = site.run(command.format(mark=mark), level)
    assert (outcome.exit_code, outcome.output, outcome.reason) == (0, "done\n", None)
    assert not running(mark)
    if level == "advisory":
        assert outcome.left >= 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("echo a; echo b >&2; false", 1, "a\nb\n"),
        ("exit 3", 3, ""),
        ("false | true", 0, ""),
        ("kill -9 $$", 137, ""),
        ("kill -TERM $$", 143, ""),
        ("no-such-program-x", 127, None),
        ("cat; read x; echo $?", 0, "1\n"),
        ("echo $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT $CI", 0, "cat cat 0 1\n"),
        ("tty", 1, "not a tty\n"),
        ("exec 3>&1; sleep 60 >&3 & echo done", 0, "done\n"),
    ],
)
def test_codes_and_output(site: Site, level: Level, command: str, code: int, said: str | None) -> None:
    outcome = site.run(command, level)
    assert outcome.exit_code == code
    assert outcome.output == said if said is not None else "no-such-program-x" in outcome.output


@pytest.mark.parametrize("level", LEVELS)
def test_time_is_limited(site: Site, level: Level, mark: str) -> None:
    outcome = site.run(f"trap '' TERM; echo before; sleep {mark}; echo after", level, seconds=0.6)
    assert (outcome.exit_code, outcome.reason, outcome.output) == (124, "timeout", "before\n")
    assert not running(mark)


@pytest.mark.parametrize("level", LEVELS)
def test_processes_are_limited(site: Site, level: Level, mark: str) -> None:
    command = f"for i in $(seq 60); do sleep {mark} & done; wait"
    outcome = site.run(command, level, pids=20)
    assert outcome.reason == "pids" and outcome.exit_code != 0 and not running(mark)


@pytest.mark.parametrize("level", LEVELS)
def test_memory_is_limited(site: Site, level: Level) -> None:
    allocate = "x = [bytearray(1 << 20) for _ in range(300)]; print(len(x))"
    outcome = site.run(f"{sys.executable} -c '{allocate}'", level, memory_bytes=150 << 20)
    assert outcome.exit_code != 0 and "300" not in outcome.output.split()
    # Each of them is within the limit, and all together are not.
    code = "x = bytearray(60 << 20); import time; time.sleep(60)"
    outcome = site.run(
        f"for i in 1 2 3 4; do {sys.executable} -c '{code}' & done; wait", level, memory_bytes=150 << 20
    )
    assert outcome.reason == "memory"


@pytest.mark.parametrize("level", LEVELS)
def test_files_and_output_are_limited(site: Site, level: Level) -> None:
    site.run("head -c 3000000 /dev/zero > big", level, file_bytes=1_000_000)
    assert (site.root / "big").stat().st_size == 1_000_000
    outcome = site.run("echo START; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo END", level)
    assert outcome.output.startswith("START\n") and outcome.output.endswith("\nEND\n")
    assert outcome.total_bytes == 5_000_011 and len(outcome.output) < 700_000


def test_all_of_the_output_goes_into_a_file(site: Site) -> None:
    path = site.tmp / "out.txt"
    outcome = asyncio.run(run("seq 300000", site.policy(), level="advisory", output=path))
    assert outcome.path == path and path.read_text().split() == [str(i) for i in range(1, 300001)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert "[... " in outcome.output


@pytest.mark.parametrize("level", LEVELS)
async def test_a_cancelled_command_is_gone(site: Site, level: Level, mark: str) -> None:
    task = asyncio.create_task(run(f"setsid sleep {mark} & sleep {mark}", site.policy(), level=level))
    while not running(mark):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running(mark)


@pytest.mark.parametrize("level", LEVELS)
def test_when_we_are_killed_the_command_is_gone(site: Site, level: Level, mark: str) -> None:
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom ultra_sdk.agent.sandbox.run import run\n"
        "from ultra_sdk.agent.sandbox.policy import Policy\n"
        "root, tmp, level, command = sys.argv[1:]\n"
        "asyncio.run(run(command, Policy(Path(root), Path(tmp)), level=level))\n"
    )
    command = f"setsid sleep {mark} & sleep {mark}"
    argv = [sys.executable, "-c", script, str(site.root), str(site.tmp), level, command]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(SDK)}) as parent:
        while len(running(f"sleep\0{mark}")) < 2:
            assert parent.poll() is None
        parent.send_signal(signal.SIGKILL)
    assert gone(f"sleep\0{mark}")


async def test_many_commands_run_at_once(site: Site) -> None:
    outcomes = await asyncio.gather(
        *(run(f"sleep 0.1; echo {i}", site.policy(), level="advisory") for i in range(8))
    )
    assert [outcome.output for outcome in outcomes] == [f"{i}\n" for i in range(8)]


def test_what_cannot_start_is_an_error(site: Site) -> None:
    with pytest.raises(SandboxError, match="cannot be started"):
        asyncio.run(run("true", site.policy(), level="advisory", cwd=site.root / "none"))


def test_a_sleeping_reader_does_not_hold_the_command(site: Site) -> None:
    """Half a megabyte a write, into a pipe that is read as it comes."""
    outcome = site.run("for i in 1 2 3; do head -c 500000 /dev/zero; done | wc -c", "advisory")
    assert outcome.output == "1500000\n"
