"""Landlock (Linux 5.13 and newer): a process gives up rights to files, for itself and all that it starts.

Standard library only: this runs in the small process that becomes the command. The numbers are those of
linux/landlock.h. Not covered: modes, owners and times of files; connecting to sockets in the file system
(`seccomp` forbids that); before ABI 6, signals to other processes of the user.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
NO_NEW_PRIVS = 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
ALL = (1 << 13) - 1
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
TCP = 0b11
SCOPES = 0b11
"""Abstract sockets and signals do not leave the sandbox (ABI 6)."""
MIN_ABI = 3
"""Before ABI 3 any file could be truncated."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


def abi() -> int:
    """The version of Landlock that the kernel offers; 0 if none."""
    if not sys.platform.startswith("linux"):
        return 0
    version: int = _libc().syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(version, 0)


def restrict(writable: Iterable[str], hidden: Iterable[str], network: bool) -> None:
    """Confine this process. Raises `OSError`."""
    version = abi()
    if version < MIN_ABI:
        raise OSError("this kernel has no Landlock")
    everything = ALL | REFER | TRUNCATE | (IOCTL_DEV if version >= 5 else 0)
    net = TCP if version >= 4 and not network else 0
    scopes = SCOPES if version >= 6 else 0
    fields = struct.pack("=QQQ", everything, net, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = _call(CREATE_RULESET, fields, ctypes.c_size_t(len(fields)), ctypes.c_uint32(0))
    try:
        for path in _readable(sorted(hidden)):
            _allow(rules, path, READ & everything)
        if hidden:
            _allow(rules, "/", READ_DIR)  # names may be listed; contents are what is hidden
        for path in writable:
            _allow(rules, path, everything)
        for path in DEVICES:
            _allow(rules, path, (READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV) & everything)
        if _libc().prctl(NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs was refused")
        _call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def _readable(hidden: list[str], top: str = "/") -> Iterable[str]:
    """Paths that together are all of ``top`` but what is hidden: rights can be granted, not taken away."""
    if not any(path == top or path.startswith(top.rstrip("/") + "/") for path in hidden):
        yield top
    elif top not in hidden:
        try:
            names = os.listdir(top)
        except OSError:
            return
        for name in names:
            path = os.path.join(top, name)
            if not os.path.islink(path):
                yield from _readable(hidden, path)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, getattr(os, "O_PATH", 0) | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return  # it is gone, or not ours to see: then nothing is granted
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            access &= OF_FILES
        beneath = struct.pack("=Qi", access, fd)
        _call(ADD_RULE, ctypes.c_int(rules), ctypes.c_int(1), beneath, ctypes.c_uint32(0))
    finally:
        os.close(fd)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *args: object) -> int:
    result: int = _libc().syscall(number, *args)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
