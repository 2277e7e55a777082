"""The profile for ``sandbox-exec`` of macOS."""

from __future__ import annotations

import os
import shutil
import sys

from .policy import Policy, applicable

PROGRAM = "/usr/bin/sandbox-exec"


def prefix(policy: Policy) -> list[str]:
    """The arguments before the command itself."""
    return [PROGRAM, "-p", profile(policy)]


def profile(policy: Policy) -> str:
    """Everything may be read but what is hidden; the project and the private folder may be written.

    Later rules win, so what is taken away comes last.
    """
    writable = [os.path.realpath(policy.tmp)] + ([os.path.realpath(policy.root)] if policy.write else [])
    lines = ["(version 1)", "(allow default)", "(deny file-write*)", "(deny appleevent-send)"]
    lines += [f"(allow file-write* (subpath {_quoted(path)}))" for path in writable]
    lines.append(
        '(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))'
    )
    lines += [f"(deny file-write* (subpath {_quoted(str(p))}))" for p in applicable(policy.read_only, policy)]
    lines += [f"(deny file-read* (subpath {_quoted(str(p))}))" for p in applicable(policy.hidden, policy)]
    if not policy.network:
        lines.append("(deny network*)")
    return "\n".join(lines) + "\n"


def works() -> bool:
    """Whether this is a Mac that has it."""
    return sys.platform == "darwin" and shutil.which(PROGRAM) is not None


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
