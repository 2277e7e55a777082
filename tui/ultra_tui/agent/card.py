"""The card on which a person allows or refuses what the agent is about to do."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.widgets import Static
from ultra_sdk.agent import Approval, PermissionAsked

from ultra_tui.agent.approvals import Approvals
from ultra_tui.agent.blocks import diff_lines
from ultra_tui.palette import make_palette
from ultra_tui.text import Line, clean, wrap

GRACE_SECONDS = 0.6
"""Keys this soon after a question has appeared, or after one another, were not meant for it."""
MAX_ROWS = 14
KEYS: dict[str, Approval] = {"y": "allow", "a": "always", "n": "deny", "escape": "deny"}


class ApprovalCard(Static, can_focus=True):
    """Shows the first of the questions that wait, until it is answered. Typed-ahead keys answer nothing."""

    DEFAULT_CSS = """
    ApprovalCard { height: auto; max-height: 20; display: none; margin: 0 1; padding: 0 1;
                   border: round $warning; background: $background; }
    ApprovalCard.shown { display: block; }
    """

    BINDINGS = [Binding("shift+tab", "app.next_mode", "Next permission mode", show=False)]

    def __init__(self, approvals: Approvals, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(id="card", markup=False)
        self._approvals = approvals
        self._clock = clock
        self._shown: PermissionAsked | None = None
        self._last = 0.0

    @property
    def request(self) -> PermissionAsked | None:
        """The question on the screen."""
        return self._shown

    def follow(self) -> None:
        """Show what is first now."""
        first = self._approvals.first
        if first is not self._shown:
            self._shown = first
            self._last = self._clock()
        self.set_class(first is not None, "shown")
        if first is not None:
            self._draw(first)
            self.focus()

    def on_key(self, event: events.Key) -> None:
        if event.key not in KEYS:
            return
        event.stop()
        event.prevent_default()
        now = self._clock()
        early, self._last = now - self._last < GRACE_SECONDS, now
        if not early and self._shown is not None:
            self._approvals.answer(self._shown, KEYS[event.key])

    def on_resize(self, event: events.Resize) -> None:
        if self._shown is not None and event.size.width != event.virtual_size.width:
            self._draw(self._shown)

    def _draw(self, request: PermissionAsked) -> None:
        palette = make_palette(self.app.get_css_variables())
        width = max(20, self.app.size.width - 8)
        rows: list[Line] = wrap([(clean(request.question), palette.strong)], width)[:MAX_ROWS]
        if request.diff:
            rows += diff_lines(request.diff, width, palette, MAX_ROWS)
        always = "any edit" if request.action == "edit" else "this very command"
        keys = f"y yes · n no · a always: {always}"
        if len(self._approvals) > 1:
            keys += f" · {len(self._approvals) - 1} more wait"
        text = Text()
        for row in rows:
            for part, style in row:
                text.append(part, style)
            text.append("\n")
        text.append(keys, palette.muted)
        self.update(text)
