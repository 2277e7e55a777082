"""The app in a real pty: it answers, and it gives the terminal back whatever happens."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pty_kit import APP, Terminal
from ultra_sdk.testing import Answer, FakeEngine, Script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def app_in(
    script: Script = "The **answer** is `42`.", code: str = APP, *arguments: str
) -> Iterator[tuple[Terminal, FakeEngine]]:
    with (
        FakeEngine(script, model="tiny") as fake,
        TemporaryDirectory() as data,
        Terminal([sys.executable, "-c", code, *arguments], {**fake.env, "ULTRA_DATA_DIR": data}) as terminal,
    ):
        yield terminal, fake


def is_given_back(terminal: Terminal, code: int | None) -> None:
    """The shell goes on, with a terminal in order."""
    terminal.wait_for("exit=" if code is None else f"exit={code}")
    assert terminal.modes_on() == set()
    assert terminal.is_cooked()
    assert b"\x1b[?25h" in terminal.output[terminal.output.rindex(b"\x1b[?25l") :]
    assert b"\x1b[<u" in terminal.output
    terminal.send("still here\r")
    terminal.wait_for("read:still here")


def test_start_ask_read_the_answer_quit() -> None:
    with app_in() as (terminal, fake):
        terminal.wait_for("● ready")
        assert terminal.modes_on() and not terminal.is_cooked()
        terminal.send("what is it?\r")
        terminal.wait_for("The answer is 42.")
        terminal.wait_for("4 tokens")
        assert "▌ what is it?" in terminal.text
        terminal.send("\x04")
        is_given_back(terminal, 0)
    (create,) = fake.creates
    assert create.messages and (create.messages[-1].content or "").endswith("what is it?")


def test_resized_it_is_drawn_anew() -> None:
    with app_in("word " * 59 + "word") as (terminal, _):
        terminal.wait_for("● ready")
        terminal.send("go\r")
        terminal.wait_for("60 tokens")
        terminal.resize(40, 30)
        terminal.until(lambda: "word\n" in terminal.text and "╮" in terminal.text)
        terminal.wait_for("60 tokens")
        assert max(len(line) for line in terminal.text.split("\n")) <= 40
        terminal.send("\x04")
        is_given_back(terminal, 0)


def test_a_megabyte_pasted_in_pieces_is_one_message_and_other_newline_keys_send_nothing() -> None:
    text = "".join(f"line {number} of the paste\r" for number in range(38_000))
    with app_in("ok", APP, "--chat") as (terminal, fake):
        terminal.wait_for("● ready")
        pasted = f"\x1b[200~{text}\x1b[201~".encode()
        for at in range(0, len(pasted), 4095):
            terminal.send(pasted[at : at + 4095])
            terminal.read(0)
        terminal.wait_for("[Pasted 38,001 lines]")
        terminal.send("\x1b\rand\nmore\r")
        terminal.wait_for("1 token")
        terminal.send("\x04")
        is_given_back(terminal, 0)
    assert [create.messages and create.messages[0].content for create in fake.creates] == [
        text.replace("\r", "\n") + "\nand\nmore"
    ]


def test_escape_stops_and_the_next_message_is_answered() -> None:
    with app_in([Answer(["half"], then="hang"), "whole"]) as (terminal, _):
        terminal.wait_for("● ready")
        terminal.send("go\r")
        terminal.wait_for("half")
        terminal.send("\x1b")
        terminal.wait_for("■ stopped · 1 step · 1 token")
        terminal.send("again\r")
        terminal.wait_for("whole")
        terminal.send("\x03\x03")
        is_given_back(terminal, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("which", [0, 1])
def test_a_polite_signal_ends_it_in_order(number: signal.Signals, which: int) -> None:
    with app_in(Answer(["half"], then="hang")) as (terminal, _):
        terminal.wait_for("● ready")
        terminal.send("go\r")
        terminal.wait_for("half")
        os.kill(terminal.processes()[which], number)
        is_given_back(terminal, 128 + number)


def test_killed_outright_the_guard_cleans_up() -> None:
    with app_in() as (terminal, _):
        terminal.wait_for("● ready")
        os.kill(terminal.processes()[1], signal.SIGKILL)
        is_given_back(terminal, 137)


def test_without_its_guard_the_app_does_not_stay() -> None:
    with app_in() as (terminal, _):
        terminal.wait_for("● ready")
        guard, app = terminal.processes()
        os.kill(guard, signal.SIGKILL)
        terminal.wait_for("exit=137")
        terminal.until(lambda: not os.path.exists(f"/proc/{app}"))
        terminal.until(lambda: not terminal.modes_on() and terminal.is_cooked())


BAD = "def bad(*_): raise RuntimeError('on purpose')\n"
FAULTS = {
    "compose": "from ultra_tui.app import ChatApp\nChatApp.compose = bad\n",
    "worker": "from ultra_tui.app import ChatApp\nasync def worse(*_): bad()\nChatApp._connect = worse\n",
    "drawing": "from ultra_tui.transcript.view import Transcript\nTranscript.render_line = bad\n",
}


@pytest.mark.parametrize("where", FAULTS)
def test_our_own_fault_is_told_on_a_terminal_in_order(where: str) -> None:
    with app_in(code=BAD + FAULTS[where] + APP) as (terminal, _):
        terminal.wait_for("exit=1")
        assert "on purpose" in terminal.text
        assert terminal.modes_on() == set() and terminal.is_cooked()


def test_what_others_write_to_stderr_comes_after_the_screen_is_gone() -> None:
    noise = (
        "import os\nfrom ultra_tui.app import ChatApp\nconnect = ChatApp._connect\n"
        "def noisy(self): os.write(2, b'native noise\\n'); return connect(self)\nChatApp._connect = noisy\n"
    )
    with app_in(code=noise + APP) as (terminal, _):
        terminal.wait_for("● ready")
        assert "noise" not in terminal.text
        terminal.send("\x04")
        is_given_back(terminal, 0)
        assert "native noise" in terminal.text


def test_suspended_the_shell_has_its_terminal_and_fg_brings_the_app_back() -> None:
    with FakeEngine("ok", model="tiny") as fake:
        shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
        with Terminal(shell, {**fake.env, "PS1": "SH> "}) as terminal:
            terminal.wait_for("SH>")
            terminal.send(f"{sys.executable} -c '{APP}'\r")
            terminal.wait_for("● ready")
            terminal.send("draft")
            terminal.wait_for("draft")
            terminal.send("\x1a")
            terminal.wait_for("Stopped")
            assert terminal.modes_on() == set() and terminal.is_cooked()
            terminal.send("echo A$((40+2))B\r")
            terminal.wait_for("A42B")
            terminal.send("fg\r")
            terminal.until(lambda: "● ready" in terminal.text and "draft" in terminal.text)
            terminal.send(" more")
            terminal.wait_for("draft more")
            terminal.send("\x15\x03\x03")
            terminal.until(lambda: terminal.modes_on() == set())


def test_interrupted_before_the_screen_is_taken(tmp_path: Path) -> None:
    path = str(tmp_path / "mute.sock")
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(path)
        mute.listen()
        with Terminal([sys.executable, "-c", APP, "--url", path], {}) as terminal:
            mute.settimeout(30)
            with mute.accept()[0]:
                terminal.send("\x03")
                terminal.wait_for("exit=130")
            assert "Traceback" not in terminal.text and terminal.is_cooked()


def test_an_engine_that_cannot_be_reached_is_one_line() -> None:
    with Terminal([sys.executable, "-c", APP, "--url", "/nowhere.sock"], {}) as terminal:
        terminal.wait_for("exit=1")
        assert "ultra-chat: " in terminal.text and terminal.is_cooked()
