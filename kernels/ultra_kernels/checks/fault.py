"""How a check says what is wrong."""

from __future__ import annotations


class UnsoundProgram(AssertionError):
    """The program is wrong; the message names the first fault found."""


def require(condition: bool, fault: str) -> None:
    """Raise `UnsoundProgram` unless the condition holds."""
    if not condition:
        raise UnsoundProgram(fault)
