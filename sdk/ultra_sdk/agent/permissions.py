"""What the agent may do without asking, by mode and by how well commands are confined."""

from __future__ import annotations

from typing import Literal

from .sandbox.policy import Level

Mode = Literal["read-only", "ask", "auto-edit", "auto"]
"""How far the agent is trusted: it only looks; it asks; it edits and asks for commands; it does both."""
Action = Literal["read", "edit", "shell", "network"]
Decision = Literal["allow", "ask", "deny"]

MODES: tuple[Mode, ...] = ("read-only", "ask", "auto-edit", "auto")

_TABLE: dict[Mode, dict[Action, Decision]] = {
    "read-only": {"read": "allow", "edit": "deny", "shell": "allow", "network": "deny"},
    "ask": {"read": "allow", "edit": "ask", "shell": "ask", "network": "ask"},
    "auto-edit": {"read": "allow", "edit": "allow", "shell": "ask", "network": "ask"},
    "auto": {"read": "allow", "edit": "allow", "shell": "allow", "network": "ask"},
}


def decide(mode: Mode, action: Action, level: Level) -> Decision:
    """Whether the agent may do it.

    decide("auto", "shell", "bubblewrap")   # "allow"
    decide("auto", "shell", "advisory")     # "ask": nothing would hold the command

    ``network`` is a command that is given the network. In ``read-only`` a confined command runs with the
    project write-protected (see `writes`); one that nothing confines does not run.
    """
    decision = _TABLE[mode][action]
    if action in ("shell", "network") and level == "advisory" and decision == "allow":
        return "deny" if mode == "read-only" else "ask"
    return decision


def writes(mode: Mode) -> bool:
    """Whether commands may write into the project."""
    return mode != "read-only"


def question(action: Action, what: str, level: Level) -> str:
    """What a person is asked, with how the command would be confined.

    question("shell", "make test", "advisory")
    """
    from .sandbox.levels import WORDS

    if action in ("read", "edit"):
        return f"{action} {what}?"
    return f"run {what}{' with the network' if action == 'network' else ''}? ({WORDS[level]})"
