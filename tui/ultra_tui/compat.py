"""The one place that reaches into what Textual does not document."""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from textual import _ansi_sequences


class _Extra(str, Enum):
    """Keys that terminals can send and Textual's table lacks."""

    AltEnter = "alt+enter"
    ShiftEnter = "shift+enter"


def teach_newline_keys() -> None:
    """Tell Alt+Enter (ESC CR) and xterm's modified Enters from Enter; as they come they would all send."""
    table = cast("dict[str, Any]", _ansi_sequences.ANSI_SEQUENCES_KEYS)
    table["\x1b\r"] = table["\x1b[27;3;13~"] = (_Extra.AltEnter,)
    table["\x1b[27;2;13~"] = (_Extra.ShiftEnter,)
