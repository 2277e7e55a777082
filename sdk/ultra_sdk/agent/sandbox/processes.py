"""The processes below one, and the memory they hold: from /proc, so on Linux only. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal

PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants(process: int) -> list[int]:
    """All processes below ``process``, parents before children; empty where there is no /proc."""
    found: list[int] = []
    waiting = [process]
    while waiting:
        for child in _children(waiting.pop()):
            found.append(child)
            waiting.append(child)
    return found


def memory(processes: list[int], limit: int) -> int:
    """Bytes that they hold in memory together. Shared pages count once if the sum would exceed ``limit``."""
    resident = sum(_resident(process) for process in processes)
    return resident if resident <= limit else sum(_proportional(process) for process in processes)


def kill_all(process: int) -> None:
    """Kill everything below ``process``. They are stopped first, so that none can fork away from it."""
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for child in descendants(process):
            with contextlib.suppress(OSError):
                os.kill(child, sign)


def tasks_of_user() -> int:
    """The threads of all processes of this user: what RLIMIT_NPROC counts."""
    total, user = 0, os.getuid()
    for name in _names("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                total += len(os.listdir(f"/proc/{name}/task"))
    return total


def _children(process: int) -> list[int]:
    children: list[int] = []
    for task in _names(f"/proc/{process}/task"):
        with contextlib.suppress(OSError):
            children += [int(child) for child in _read(f"/proc/{process}/task/{task}/children").split()]
    return children


def _resident(process: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(_read(f"/proc/{process}/statm").split()[1]) * PAGE
    return 0


def _proportional(process: int) -> int:
    with contextlib.suppress(OSError):
        for line in _read(f"/proc/{process}/smaps_rollup").split("\n"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(process)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
