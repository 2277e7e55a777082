"""What is around the engine: tools that confine an agent's commands, the runtime folder, running servers."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

from ultra_sdk.protocol import runtime
from ultra_sdk.protocol.runtime import RuntimeInfo

from .findings import Finding, Verdict

_LANDLOCK_CREATE_RULESET = 444
_LEAST_LANDLOCK = 3
"""The version from which on it can keep files from being cut short."""


def sandbox() -> Finding:
    """What can confine the commands of an agent: Seatbelt on macOS, bubblewrap or Landlock on Linux."""
    found = []
    if sys.platform == "darwin" and shutil.which("sandbox-exec"):
        found.append("Seatbelt")
    if _bubblewrap():
        found.append("bubblewrap")
    version = _landlock()
    if version >= _LEAST_LANDLOCK:
        found.append(f"Landlock {version}")
    data = {"sandbox": found, "landlock": version}
    if found:
        return Finding("sandbox", ", ".join(found), data=data)
    advice = "install bubblewrap, so that an agent's commands can be confined"
    return Finding("sandbox", "nothing that confines commands", Verdict.POOR, advice, data)


def _bubblewrap() -> bool:
    """Whether it is there and may be used: many containers forbid what it needs."""
    program = shutil.which("bwrap")
    if program is None:
        return False
    try:
        command = [program, "--ro-bind", "/", "/", "--unshare-all", "true"]
        return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _landlock() -> int:
    """The version of Landlock's interface; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def search() -> Finding:
    """ripgrep, with which an agent searches files."""
    program = shutil.which("rg")
    if program is None:
        advice = "install ripgrep: searching files is much faster with it"
        return Finding("ripgrep", "not there", Verdict.POOR, advice, {"ripgrep": None})
    return Finding("ripgrep", program, data={"ripgrep": program})


def runtime_folder() -> Finding:
    """Where servers leave their sockets and keys: it must be ours alone, or be possible to make so."""
    folder = runtime.runtime_dir()
    data = {"runtime": str(folder)}
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return _to_be_made(folder, data)
    except OSError as error:
        return Finding("runtime", f"{folder}: {error.strerror}", Verdict.FATAL, _ELSEWHERE, data)
    if not stat.S_ISDIR(found.st_mode):
        return Finding("runtime", f"{folder} is not a folder", Verdict.FATAL, _ELSEWHERE, data)
    if os.name == "posix" and found.st_uid != os.geteuid():
        return Finding("runtime", f"{folder} belongs to another user", Verdict.FATAL, _ELSEWHERE, data)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("runtime", f"{folder} cannot be written", Verdict.FATAL, _ELSEWHERE, data)
    mode = stat.S_IMODE(found.st_mode)
    if os.name == "posix" and mode != 0o700:
        advice = "others may look into it; the next server makes it 0700"
        return Finding("runtime", f"{folder}, mode {mode:04o}", Verdict.POOR, advice, data)
    return Finding("runtime", f"{folder}, private", data=data)


_ELSEWHERE = "set ULTRA_RUNTIME_DIR to a folder of yours"


def _to_be_made(folder: Path, data: dict[str, str]) -> Finding:
    there = folder.parent
    while not there.exists() and there != there.parent:
        there = there.parent
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Finding("runtime", f"{folder}, to be made", data=data)
    words = f"{folder} cannot be made: {there} cannot be written"
    return Finding("runtime", words, Verdict.FATAL, _ELSEWHERE, data)


def servers() -> Finding:
    """Those that run, and whether they take connections."""
    found = runtime.running()
    deaf = [info for info in found if not _listens(info)]
    names = ", ".join(f"{info.name} (pid {info.pid})" for info in found)
    data = {"servers": [{"name": info.name, "pid": info.pid, "listens": info not in deaf} for info in found]}
    if deaf:
        who = ", ".join(f"{info.name} (pid {info.pid})" for info in deaf)
        return Finding("servers", names, Verdict.POOR, f"{who} takes no connections: stop it", data)
    return Finding("servers", names or "none running", data=data)


def _listens(info: RuntimeInfo) -> bool:
    place: str | tuple[str, int]
    if info.unix is not None:
        kind, place = socket.AF_UNIX, info.unix
    elif info.host is not None and info.port is not None:
        kind, place = (socket.AF_INET6 if ":" in info.host else socket.AF_INET), (info.host, info.port)
    else:
        return False
    with socket.socket(kind, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        try:
            probe.connect(place)
        except OSError:
            return False
    return True
