from __future__ import annotations

import itertools

import pytest
from ultra_sdk.agent.permissions import MODES, Action, Decision, Mode, decide, question, writes
from ultra_sdk.agent.sandbox.policy import Level

RANK = {"deny": 0, "ask": 1, "allow": 2}


@pytest.mark.parametrize(
    ("mode", "action", "confined", "advisory"),
    [
        ("read-only", "read", "allow", "allow"),
        ("read-only", "edit", "deny", "deny"),
        ("read-only", "shell", "allow", "deny"),
        ("read-only", "network", "deny", "deny"),
        ("ask", "read", "allow", "allow"),
        ("ask", "edit", "ask", "ask"),
        ("ask", "shell", "ask", "ask"),
        ("ask", "network", "ask", "ask"),
        ("auto-edit", "edit", "allow", "allow"),
        ("auto-edit", "shell", "ask", "ask"),
        ("auto", "edit", "allow", "allow"),
        ("auto", "shell", "allow", "ask"),
        ("auto", "network", "ask", "ask"),
    ],
)
def test_decisions(mode: Mode, action: Action, confined: Decision, advisory: Decision) -> None:
    assert decide(mode, action, "bubblewrap") == decide(mode, action, "landlock") == confined
    assert decide(mode, action, "advisory") == advisory


def test_less_confinement_never_allows_more() -> None:
    actions: tuple[Action, ...] = ("read", "edit", "shell", "network")
    for mode, action in itertools.product(MODES, actions):
        assert RANK[decide(mode, action, "advisory")] <= RANK[decide(mode, action, "seatbelt")]


def test_only_one_mode_never_writes() -> None:
    assert [mode for mode in MODES if not writes(mode)] == ["read-only"]


@pytest.mark.parametrize("level", ["bubblewrap", "landlock", "advisory"])
def test_a_question_says_how_a_command_is_confined(level: Level) -> None:
    asked = question("shell", "make test", level)
    assert asked.startswith("run make test? (") and (level == "advisory") == ("advisory" in asked)
    assert "with the network" in question("network", "pip install x", level)
    assert question("edit", "a.py", level) == "edit a.py?"
