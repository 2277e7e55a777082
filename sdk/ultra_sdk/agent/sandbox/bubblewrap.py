"""The command line of bubblewrap: new namespaces, a read-only system, and a few writable folders in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from .policy import Policy, applicable

MASKED = ("/tmp", "/var/tmp", "/run", "/dev/shm")
"""Where sockets of other programs lie: the service behind one acts with the user's full rights."""
SETTINGS = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/scsi")
"""Root may write the machine's settings there even without any capability."""
KEPT = ("/run/current-system", "/run/wrappers", "/run/opengl-driver")
"""Where NixOS has its programs."""
RESOLVER = "/run/systemd/resolve"
PROBE_SECONDS = 20


def prefix(program: str, policy: Policy) -> list[str]:
    """The arguments before the command itself."""
    root, tmp = os.path.realpath(policy.root), os.path.realpath(policy.tmp)
    args = [program, "--die-with-parent", "--new-session", "--unshare-all", "--cap-drop", "ALL"]
    args += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in SETTINGS:
        args += ["--ro-bind-try", path, path]
    for path in MASKED[:3]:
        if os.path.isdir(path) and not os.path.islink(path):
            args += ["--tmpfs", path]
    for path in KEPT:
        args += ["--ro-bind-try", path, path]
    if policy.network:
        args += ["--share-net", "--ro-bind-try", RESOLVER, RESOLVER]
    args += ["--bind" if policy.write else "--ro-bind", root, root, "--bind", tmp, tmp]
    for kept in applicable(policy.read_only, policy):
        args += ["--ro-bind", str(kept), str(kept)]
    for secret in applicable(policy.hidden, policy):
        if any(str(secret) == masked or str(secret).startswith(masked + "/") for masked in MASKED):
            if not secret.is_relative_to(root) and not secret.is_relative_to(tmp):
                continue  # it is masked already, and there is nothing to mount on
        args += ["--tmpfs", str(secret)] if secret.is_dir() else ["--ro-bind", "/dev/null", str(secret)]
    return args


def find() -> str | None:
    """The program, if it is installed and user namespaces are allowed here."""
    program = shutil.which("bwrap")
    return program if program is not None and _works(program) else None


@lru_cache(maxsize=4)
def _works(program: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="ultra-probe-") as folder:
        policy = Policy(Path(folder), Path(folder))
        try:
            done = subprocess.run(
                [*prefix(program, policy), "--", "true"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PROBE_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
    return done.returncode == 0
