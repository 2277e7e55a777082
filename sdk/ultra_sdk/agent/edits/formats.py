"""Which form of edit a model is asked for, until our own figures for it say otherwise."""

from __future__ import annotations

from typing import Literal

Format = Literal["whole", "symbol", "blocks", "diff"]

SMALL_BILLIONS = 10.0
WHOLE_LINES = 300
"""Up to this length a small model writes the whole file."""


def choose_format(billions: float, lines: int, *, python: bool = True) -> Format:
    """The form for a model of ``billions`` parameters and a file of ``lines`` lines.

    choose_format(1.5, 120)   # "whole"
    choose_format(32, 120)    # "blocks"

    Below 10 billion whole files do best (aider's figures), and above 300 lines whole definitions.
    """
    if billions >= SMALL_BILLIONS:
        return "blocks"
    if lines <= WHOLE_LINES:
        return "whole"
    return "symbol" if python else "blocks"


def after_failure(used: Format, lines: int, *, python: bool = True) -> Format:
    """The form for the second try in the same step."""
    if lines <= WHOLE_LINES or used == "symbol":
        return "whole"
    return "symbol" if python else "whole"
