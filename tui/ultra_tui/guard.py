"""Whatever happens to the app, the terminal comes back: a small parent process that outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

# Mouse tracking, focus events, bracketed paste, in-band resize, alternate screen off; kitty keys popped;
# cursor and line wrap on; colours reset.
RESTORE = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?1004l\x1b[?2004l\x1b[?2048l"
    "\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?7h\x1b[0m\r"
)


def supervise(run: Callable[[int | None], int]) -> int:
    """Run the app in a child process and return its exit code; restore the terminal if a signal kills it.

    ``run`` gets a file descriptor that reads as ended when this process is gone, so that the app never
    stays behind with the terminal. Without a terminal or ``fork`` it runs right here, and gets None.
    """
    if not hasattr(os, "fork") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return run(None)
    import termios

    terminal = sys.stdin.fileno()
    modes = termios.tcgetattr(terminal)
    alive, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(held)
        _leave(run, alive)
    os.close(alive)
    _pass_signals_to(child)
    status = _wait(child)
    if os.WIFSIGNALED(status):
        with contextlib.suppress(OSError, termios.error):
            os.write(sys.stderr.fileno(), RESTORE.encode())
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def _leave(run: Callable[[int | None], int], alive: int) -> None:
    """The child: run and end here, whatever happens, so that only the parent returns from `supervise`."""
    code = 1
    try:
        code = run(alive)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _pass_signals_to(child: int) -> None:
    def send(number: int, _: Any) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, send)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)  # the child has the terminal and hears them itself


def _wait(child: int) -> int:
    """The status with which the child ended. While it is stopped this process is stopped, too."""
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        os.kill(os.getpid(), signal.SIGSTOP)
        _wake(child)


def _wake(child: int) -> None:
    """The shell continues the whole group; if only we were continued, pass it on."""
    for _ in range(10):
        done, status = os.waitpid(child, os.WNOHANG | os.WCONTINUED)
        if done and os.WIFCONTINUED(status):
            return
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGCONT)
