"""The one place that reaches into what Textual does not document."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

from textual import _ansi_sequences
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.widget import Widget


class _Extra(StrEnum):
    """Keys that terminals can send and Textual's table lacks."""

    AltEnter = "alt+enter"


def teach_newline_keys() -> None:
    """Tell Alt+Enter (ESC CR) from Enter; without this it would send."""
    table = cast("dict[str, Any]", _ansi_sequences.ANSI_SEQUENCES_KEYS)
    table["\x1b\r"] = (_Extra.AltEnter,)


def set_virtual_size(view: ScrollView, size: Size) -> None:
    """Set the scrollable size of ``view`` without a new layout of the screen, which a frame cannot afford.

    Only where the scrollbar comes or goes is the layout made anew.
    """
    needs_bar = size.height > view.container_size.height
    if needs_bar != view.show_vertical_scrollbar or size.width != view.virtual_size.width:
        view.virtual_size = size
    elif size != view.virtual_size:
        view.set_reactive(Widget.virtual_size, size)
        view._scroll_update(size)
