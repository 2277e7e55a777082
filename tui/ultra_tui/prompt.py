"""Where the person writes: several lines, history, long pastes as marks."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip
from textual.widgets import TextArea

from ultra_tui.history import History
from ultra_tui.pastes import Pastes, is_long
from ultra_tui.text import clean

NEWLINE_KEYS = ("shift+enter", "alt+enter", "ctrl+enter", "ctrl+j", "shift+\r", "\r")
"""The last two are what Textual makes of Shift+Enter and Alt+Enter in xterm's own encoding."""


class Prompt(TextArea):
    """A text area in which Enter sends. The owner decides what a sent text is, and calls `accept`."""

    BINDINGS = [
        Binding("escape", "app.stop", "Stop", show=False),
        Binding("ctrl+z", "app.suspend_process", "Suspend", show=False),
        Binding("ctrl+underscore,ctrl+slash", "undo", "Undo", show=False),
        Binding("shift+tab", "app.next_mode", "Next permission mode", show=False),
        Binding("pageup", "app.page(-1)", "Page up", show=False),
        Binding("pagedown", "app.page(1)", "Page down", show=False),
        Binding("ctrl+home", "app.to_start", "To the start", show=False),
        Binding("ctrl+end", "app.to_end", "To the end", show=False),
    ]

    DEFAULT_CSS = """
    Prompt { height: auto; max-height: 12; min-height: 3; padding: 0 1; background: $background;
             border: round $primary 60%; border-subtitle-color: $foreground 50%;
             border-subtitle-align: right; border-subtitle-style: none; scrollbar-size-vertical: 1; }
    Prompt:focus { border: round $primary; }
    Prompt .text-area--cursor-line { background: $background; }
    """

    @dataclass
    class Sent(Message):
        """Enter was pressed on a text that is not blank; marks of pastes are expanded in ``text``."""

        text: str
        shown: str

    class Completing(Message):
        """Tab was pressed."""

    class QueueWanted(Message):
        """Up was pressed on an empty prompt: a queued message may be taken back."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            placeholder="Ask anything",
            highlight_cursor_line=False,
        )
        self.sent = History()
        self.pastes = Pastes()

    @property
    def full_text(self) -> str:
        """The text with the pastes in place."""
        return self.pastes.expand(self.text)

    @property
    def before_cursor(self) -> str:
        """The text up to the cursor."""
        return self.get_text_range((0, 0), self.cursor_location)

    def replace_before_cursor(self, text: str) -> None:
        """Replace that; the cursor stays behind it."""
        self.replace(text, (0, 0), self.cursor_location, maintain_selection_offset=False)

    def accept(self) -> None:
        """The text was taken: remember it and begin an empty one."""
        self.sent.add(self.text)
        self.show("")

    def show(self, text: str) -> None:
        """Replace the text, cursor at the end."""
        self.text = text
        self.move_cursor(self.document.end)

    def render_line(self, y: int) -> Strip:
        # In a window that leaves no cell, wrapping the placeholder would fail.
        return super().render_line(y) if self.content_size.width > 0 else Strip.blank(0)

    # --- keys ---------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if self._handle(event.key):
            event.stop()
            event.prevent_default()

    def _handle(self, key: str) -> bool:
        if key == "enter":
            self._enter()
        elif key in NEWLINE_KEYS:
            self.insert("\n")
        elif key == "tab":
            self.post_message(self.Completing())
        elif key == "up" and self.navigator.is_first_wrapped_line(self.cursor_location):
            self._back()
        elif key == "down" and self.navigator.is_last_wrapped_line(self.cursor_location):
            self._forward()
        elif key == "ctrl+d" and not self.text:
            self.app.exit()
        elif key in ("backspace", "ctrl+w", "alt+backspace", "ctrl+backspace"):
            return self._delete_mark()
        else:
            return False
        return True

    def _enter(self) -> None:
        row, column = self.cursor_location
        if column and self.document[row][column - 1] == "\\" and self.cursor_at_end_of_line:
            self.replace("\n", (row, column - 1), (row, column))
        elif self.text.strip():
            self.post_message(self.Sent(self.full_text, self.text))

    def _back(self) -> None:
        if not self.text:
            self.post_message(self.QueueWanted())
            return
        self.walk_back()

    def walk_back(self) -> None:
        """Show the entry of the history before this one."""
        entry = self.sent.back(self.text)
        if entry is not None:
            self.show(entry)

    def _forward(self) -> None:
        entry = self.sent.forward()
        if entry is not None:
            self.show(entry)

    def _delete_mark(self) -> bool:
        """Delete the mark before or around the cursor as one; False if there is none."""
        row, column = self.cursor_location
        line = self.document[row]
        start = self.pastes.ending_at(line, column) if self.selection.is_empty else None
        if start is None:
            return False
        self.delete((row, start), (row, start + self.pastes.length_at(line, start)))
        return True

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        self.paste(text)

    def paste(self, text: str) -> None:
        """Insert a pasted text; a long one is shown as a mark."""
        shown = self.pastes.mark(text) if is_long(text) else clean(text)
        self.replace(shown, *self.selection, maintain_selection_offset=False)
