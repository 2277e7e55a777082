"""Forbidding sockets and a few other calls by a seccomp filter, for where there is no network namespace.

Standard library only. A filter is a program of classic BPF (linux/seccomp.h, linux/bpf_common.h); calls are
refused with EPERM, so programs see an error and are not killed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

LOAD, JUMP_EQUAL, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER_AT, ARCH_AT, ARGUMENT_AT = 0, 4, 16
ALLOW, REFUSE = 0x7FFF0000, 0x00050001
X32 = 0x40000000
AF_INET, AF_INET6, AF_NETLINK = 2, 10, 16
PR_SET_SECCOMP, FILTER_MODE = 22, 2

# The machine's name: its audit number, its `socket`, and what is refused in any case: io_uring_setup (it can
# open sockets by itself), add_key, request_key, keyctl (the user's keys), bpf, perf_event_open.
MACHINES = {
    "x86_64": (0xC000003E, 41, (425, 248, 249, 250, 321, 298)),
    "aarch64": (0xC00000B7, 198, (425, 217, 218, 219, 280, 241)),
}


def supported() -> bool:
    """Whether the numbers of this machine are known."""
    return platform.machine() in MACHINES


def forbid(network: bool) -> None:
    """Filter this process and all that it starts; ``no_new_privs`` must be set. Raises `OSError`.

    Without ``network`` no socket can be opened at all; with it, only those of IP. Sockets of the file system
    are refused in both cases: behind them are services that act with the user's full rights.
    """
    families = (AF_INET, AF_INET6, AF_NETLINK) if network else ()
    program = _program(*MACHINES[platform.machine()], families)
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, FILTER_MODE, header, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _program(arch: int, socket: int, refused: tuple[int, ...], families: tuple[int, ...]) -> bytes:
    """The steps; a jump skips as many steps as it says, if it holds and if it does not."""
    checks = [(JUMP_EQUAL, number) for number in refused]
    steps = [
        (LOAD, 0, 0, ARCH_AT),
        (JUMP_EQUAL, 1, 0, arch),
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, NUMBER_AT),
        (JUMP_AT_LEAST, len(checks) + 1, 0, X32),
    ]
    # Behind here: the checks, "is it socket?", refuse, allow, load the family, its checks, refuse, allow.
    for i, (code, number) in enumerate(checks):
        steps.append((code, len(checks) - i, 0, number))
    steps += [
        (JUMP_EQUAL, 2, 1, socket),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, ARGUMENT_AT),
    ]
    steps += [(JUMP_EQUAL, len(families) - i, 0, family) for i, family in enumerate(families)]
    steps += [(RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
