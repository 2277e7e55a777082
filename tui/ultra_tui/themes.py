"""The two themes of our own; all of Textual's can be chosen, too."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="ultra-dark",
    primary="#7aa7ff",
    secondary="#8f9bd8",
    accent="#f2b572",
    foreground="#d9dce5",
    background="#0f1117",
    surface="#171a22",
    panel="#1e222c",
    success="#93d6a0",
    warning="#f2b572",
    error="#f2788a",
    dark=True,
)

LIGHT = Theme(
    name="ultra-light",
    primary="#2b5fc7",
    secondary="#5a559e",
    accent="#9a5200",
    foreground="#23262e",
    background="#fcfcfd",
    surface="#f2f3f6",
    panel="#e8eaef",
    success="#23733c",
    warning="#9a5200",
    error="#b3243b",
    dark=False,
)
