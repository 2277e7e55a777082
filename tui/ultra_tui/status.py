"""The status line: what happens now, how fast, and how full the context is."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from ultra_tui.meter import Meter, per_second, seconds

_WORDS = {
    "starting": "… starting engine",
    "ready": "● ready",
    "offline": "○ no engine",
    "waiting": "… waiting",
    "queued": "… queued",
    "prefill": "… reading",
    "streaming": "▶ answering",
    "working": "▶ working",
    "asking": "? asks you",
    "done": "● ready",
    "cancelled": "■ stopped",
    "failed": "✕ failed",
}


def state_words(meter: Meter) -> str:
    """The state with its sign, so that it is never told by colour alone."""
    words = _WORDS[meter.state]
    if meter.state == "starting" and meter.note:
        return f"… {meter.note}"
    if meter.state == "queued" and meter.position:
        return f"{words}, {meter.position} ahead"
    if meter.state == "prefill":
        return f"{words} {meter.progress:.0%}"
    return words


def context_words(meter: Meter, short: bool) -> str:
    """Tokens used of the context, and the part of it."""
    used, total = meter.context_used, meter.context_total
    if not total:
        return ""
    if short:
        return f"{used / total:.0%} context"
    return f"context {used:,} / {total:,} ({used / total:.0%})"


def status_parts(meter: Meter, width: int, queued: int = 0, mode: str = "") -> list[str]:
    """The parts that fit ``width`` cells with two spaces between them; the less important ones yield."""
    rate = per_second(meter.rate) if meter.rate is not None else ""
    first = f"first token {seconds(meter.ttft)}" if meter.ttft is not None else ""
    ttft = first.replace("first token", "ttft")
    waiting = f"{queued} queued" if queued else ""
    for parts in (
        [state_words(meter), mode, waiting, rate, first, context_words(meter, short=False)],
        [state_words(meter), mode, waiting, rate, first, context_words(meter, short=True)],
        [state_words(meter), mode, waiting, rate, ttft, context_words(meter, short=True)],
        [state_words(meter), mode, rate, ttft, context_words(meter, short=True)],
        [state_words(meter), mode, rate],
        [state_words(meter), mode],
        [state_words(meter)],
    ):
        parts = [part for part in parts if part]
        if sum(cell_len(part) + 3 for part in parts) <= width:
            return parts
    return parts


class StatusLine(Widget):
    """One row under the prompt. Redrawn by the clock, and only when its text has changed."""

    DEFAULT_CSS = """
    StatusLine { height: 1; padding: 0 2; background: $background; color: $foreground 70%; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.meter = Meter()
        self.model = ""
        self.queued = 0
        self.mode = ""
        """How far the agent is trusted; empty where there is none."""
        self._shown = ""

    @property
    def line(self) -> str:
        """The row as plain text."""
        width = self.content_size.width
        model = self.model if cell_len(self.model) <= width // 3 else ""
        left = " · ".join(status_parts(self.meter, width - cell_len(model), self.queued, self.mode))
        return left + " " * max(1, width - cell_len(left) - cell_len(model)) + model

    def tick(self) -> bool:
        """Redraw if there is something new to tell."""
        if self.line != self._shown:
            self.refresh()
        return False

    def render(self) -> Text:
        self._shown = self.line
        return Text(self._shown, no_wrap=True, end="")
