"""The small process between us and a command: it confines it, watches its limits, and leaves nothing behind.

It is started as ``python -I -S -c ...`` and uses the standard library alone. It reads a `Job` as one line of
JSON from its standard input, which then stays open: when it ends, we are gone, and the command is killed. The
command writes to our standard output; what became of it is one line of JSON on standard error.

Everything that the command started is adopted by this process (PR_SET_CHILD_SUBREAPER), however often it
forked and whatever session it made for itself; so when no child is left, nothing is.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

from . import landlock, processes, seccomp

SUBREAPER, DEATH_SIGNAL, DROP_BOUND = 36, 1, 24
KEPT_CAPABILITIES = (0, 1, 3, 4)
"""What root keeps of its rights, to work with files of others: chown, dac_override, fowner, fsetid."""
TICK = 0.1
LINUX = sys.platform.startswith("linux")

Job = dict[str, Any]
"""argv, cwd, env, seconds, memory_bytes, pids, file_bytes, landlock: None or {writable, hidden}, network."""


def main() -> None:
    """Run one job and report."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    job: Job = json.loads(sys.stdin.buffer.readline())
    if LINUX:
        _prctl(SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    failed, fail = os.pipe()
    child = os.fork()
    if child == 0:
        _become(job, fail)
    os.close(fail)
    # Our own copy would keep the reader waiting if we were slow to leave.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    report = _watch(job, child, woken)
    report["error"] = os.read(failed, 4096).decode(errors="replace") or None
    sys.stderr.write(json.dumps(report))
    sys.stderr.flush()
    os._exit(0)


def _watch(job: Job, child: int, woken: int) -> dict[str, Any]:
    """Wait for the command to end or break a limit; then kill what is left."""
    deadline = time.monotonic() + job["seconds"]
    status: int | None = None
    reason = None
    while status is None and reason is None:
        ready, _, _ = select.select([0, woken], [], [], min(TICK, max(deadline - time.monotonic(), 0)))
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        status = _reap(child)
        if status is not None:
            break
        if 0 in ready and not os.read(0, 4096):
            reason = "cancelled"
        elif time.monotonic() >= deadline:
            reason = "timeout"
        else:
            reason = _broken(job)
    left = len([p for p in processes.descendants(os.getpid()) if _alive(p)]) if reason is None else 0
    status = _kill(child, status)
    return {"status": status, "reason": reason, "left": left}


def _broken(job: Job) -> str | None:
    running = processes.descendants(os.getpid())
    if len(running) > job["pids"]:
        return "pids"
    return "memory" if processes.memory(running, job["memory_bytes"]) > job["memory_bytes"] else None


def _reap(child: int) -> int | None:
    """Collect what ended; the wait status of the command itself if it did."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == child:
                status = found[1]
    return status


def _kill(child: int, status: int | None) -> int | None:
    """Kill until no child is left."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    while True:
        processes.kill_all(os.getpid())
        try:
            found = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if found[0] == child:
            status = found[1]
        elif not found[0]:
            time.sleep(0.002)


def _alive(process: int) -> bool:
    """Whether it still runs; bubblewrap's own process does not count."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat") as file:
        name, _, rest = file.read().rpartition(")")
        return rest.split()[0] not in "ZX" and not name.endswith("(bwrap")
    return False


def _become(job: Job, fail: int) -> None:
    """In the child: give up rights and become the command."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(1, 2)
        signal.set_wakeup_fd(-1)
        for sign in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT):
            signal.signal(sign, signal.SIG_DFL)
        if LINUX:
            _prctl(DEATH_SIGNAL, signal.SIGKILL)
        _limit(job)
        os.chdir(job["cwd"])
        if job["landlock"] is not None:
            if os.geteuid() == 0:
                _drop_capabilities()
            landlock.restrict(job["landlock"]["writable"], job["landlock"]["hidden"], job["network"])
            seccomp.forbid(job["network"])
        os.execvpe(job["argv"][0], job["argv"], job["env"])
    except OSError as error:
        os.write(fail, str(error).encode())
    finally:
        os._exit(127)


def _limit(job: Job) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: job["file_bytes"],
        resource.RLIMIT_DATA: job["memory_bytes"],
    }
    if LINUX:
        # A backstop against forking faster than we look: threads count here, and those of others.
        limits[resource.RLIMIT_NPROC] = processes.tasks_of_user() + 8 * job["pids"]
    for which, wanted in limits.items():
        hard = resource.getrlimit(which)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(which, (value, value))


def _drop_capabilities() -> None:
    for capability in range(64):
        if capability not in KEPT_CAPABILITIES:
            _prctl(DROP_BOUND, capability)


def _prctl(option: int, value: int) -> int:
    import ctypes

    result: int = ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    return result
