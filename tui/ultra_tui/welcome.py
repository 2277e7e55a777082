"""What is drawn in the transcript by the app itself: the welcome and the help."""

from __future__ import annotations

from collections.abc import Iterable

from ultra_tui import __version__
from ultra_tui.commands import Command
from ultra_tui.palette import Palette
from ultra_tui.text import Line, line_width, wrap

_LOGO = ("█ █ █  ▀█▀ █▀█ ▄▀█", "█▄█ █▄▄ █  █▀▄ █▀█")
_LOGO_WIDTH = 18

KEYS = (
    ("Enter", "send"),
    ("Shift+Enter, Alt+Enter, Ctrl+J, \\ Enter", "new line"),
    ("Esc", "stop the answer; queued messages come back to the prompt"),
    ("↑ ↓", "earlier messages; a queued message"),
    ("PgUp PgDn, Ctrl+Home, Ctrl+End", "scroll"),
    ("Tab", "complete a command or the name of a file after @"),
    ("Shift+Tab", "the agent's next permission mode"),
    ("!command", "run a command yourself; the agent is told of it"),
    ("Ctrl+R", "show or hide the reasoning"),
    ("Ctrl+P", "all actions"),
    ("Ctrl+Z", "suspend"),
    ("Ctrl+C twice, Ctrl+D", "quit"),
)


def welcome_lines(model: str, context: int, width: int, palette: Palette) -> list[Line]:
    """Name, model, and the few keys that one needs to begin."""
    about: list[Line] = [
        [("ultra-chat ", palette.strong), (__version__, palette.muted)],
        [(model or "connecting", palette.text)],
    ]
    if context:
        about[1].append((f" · {context:,} tokens of context", palette.muted))
    lines: list[Line] = [[]]
    if _LOGO_WIDTH + 3 + max(line_width(line) for line in about) <= width:
        for row, side in zip(_LOGO, about, strict=True):
            lines.append([(row, palette.brand), ("   ", palette.text), *side])
    else:
        lines += [row for line in about for row in wrap(line, width)]
    hints = "Ask anything. Esc stops an answer, Alt+Enter begins a new line, /help tells the rest."
    return [*lines, [], *wrap([(hints, palette.muted)], width)]


def help_lines(commands: Iterable[Command], width: int, palette: Palette) -> list[Line]:
    """The commands and the keys."""
    rows = [(command.usage, command.help) for command in commands]
    lines = [[("Commands", palette.heading)], *_two_columns(rows, width, palette)]
    return [*lines, [], [("Keys", palette.heading)], *_two_columns(KEYS, width, palette)]


def _two_columns(rows: Iterable[tuple[str, str]], width: int, palette: Palette) -> list[Line]:
    rows = list(rows)
    left = min(max(len(name) for name, _ in rows), max(8, width // 2))
    lines: list[Line] = []
    for name, text in rows:
        names = wrap([(name, palette.strong)], left)
        texts = wrap([(text, palette.muted)], width - left - 2)
        for index in range(max(len(names), len(texts))):
            head = names[index] if index < len(names) else []
            rest = texts[index] if index < len(texts) else []
            space = " " * (left - line_width(head) + 2)
            lines.append([*head, (space, palette.text), *rest])
    return lines
