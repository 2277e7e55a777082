"""Which ways of confining a command work on this machine."""

from __future__ import annotations

import sys

from ..errors import SandboxError
from . import bubblewrap, landlock, seatbelt, seccomp
from .policy import Level, Policy, applicable

WORDS = {
    "bubblewrap": "confined by bubblewrap",
    "landlock": "confined by Landlock (file modes and .git are not)",
    "seatbelt": "confined by Seatbelt",
    "advisory": "advisory: nothing here can confine a command",
}
"""What a permission prompt says of each level."""


def available() -> list[Level]:
    """The levels that work here, the strongest first; ``advisory`` always does."""
    found: list[Level] = []
    if sys.platform.startswith("linux"):
        if bubblewrap.find() is not None:
            found.append("bubblewrap")
        if landlock.abi() >= landlock.MIN_ABI and seccomp.supported():
            found.append("landlock")
    elif seatbelt.works():
        found.append("seatbelt")
    return [*found, "advisory"]


def strongest() -> Level:
    """The level that commands run under unless another is asked for."""
    return available()[0]


def demand(level: Level, policy: Policy) -> None:
    """Raises `SandboxError` if ``level`` does not work here, or cannot do what ``policy`` says."""
    if level not in available():
        raise SandboxError(f"{level} does not work on this machine; there is: {', '.join(available())}")
    if level == "landlock":
        inside = [p for p in applicable(policy.hidden, policy) if p.is_relative_to(policy.root.resolve())]
        if inside or applicable(policy.read_only, policy):
            raise SandboxError(
                "Landlock cannot keep files of the project from being read or written; install bubblewrap"
            )
