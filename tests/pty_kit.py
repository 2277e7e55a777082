"""A real terminal for tests: a pty with the app in it, and an emulator that knows what its screen shows."""

from __future__ import annotations

import os
import re
import sys
import termios
import time
from collections.abc import Callable
from typing import Any

import pexpect
import pyte

APP = "import sys; from ultra_tui.cli import main; sys.exit(main())"
_MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
MOUSE_AND_SCREEN = {1000, 1002, 1003, 1006, 1004, 2004, 1049}
"""Modes that must be off again."""


class Terminal:
    """A program in a pty. Use as a context manager."""

    def __init__(self, argv: list[str], env: dict[str, str], size: tuple[int, int] = (80, 24)) -> None:
        columns, rows = size
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.output = b""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color", **env}
        environment.pop("NO_COLOR", None)
        # The shell between us and the app keeps the terminal open, as a person's shell does.
        command = ["-c", 'trap : INT; "$@"; echo "exit=$?"; read -r line; echo "read:$line"', "sh", *argv]
        self._child: Any = pexpect.spawn("/bin/sh", command, env=environment, dimensions=(rows, columns))
        self._child.delaybeforesend = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.close(force=True)

    def read(self, seconds: float = 0.05) -> None:
        """Take in what the program writes for a while."""
        try:
            data = self._child.read_nonblocking(65536, timeout=seconds)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return
        self.output += data
        # pyte takes the kitty keyboard's `CSI < u` and `CSI > 1 u` for text: keep them from it.
        self._stream.feed(re.sub(rb"\x1b\[[<>=]\d*u|\x1b\[\?\d+\$p", b"", data))

    def until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        """Read until something is so."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"it did not happen in time; the screen:\n{self.text}"
            self.read()

    def wait_for(self, text: str) -> None:
        """Read until the screen shows ``text``."""
        self.until(lambda: text in self.text)

    def send(self, keys: str | bytes) -> None:
        """Type."""
        self._child.send(keys)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        self._screen.resize(rows, columns)
        self._child.setwinsize(rows, columns)

    @property
    def text(self) -> str:
        """What the screen shows."""
        return "\n".join(line.rstrip() for line in self._screen.display)

    def modes_on(self) -> set[int]:
        """The private modes that are on, of those that must not stay."""
        on: set[int] = set()
        for match in _MODE.finditer(self.output):
            numbers = {int(number) for number in match[1].split(b";")}
            on = on | numbers if match[2] == b"h" else on - numbers
        return on & MOUSE_AND_SCREEN

    def is_cooked(self) -> bool:
        """Whether the terminal edits lines and echoes, as a shell wants it."""
        flags = termios.tcgetattr(self._child.child_fd)[3]
        return bool(flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG)

    def processes(self) -> list[int]:
        """The processes of the app: the guard, then the app itself."""
        return _descendants(self._child.pid)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        for child in file.read().split():
            found += [int(child), *_descendants(int(child))]
    return found
