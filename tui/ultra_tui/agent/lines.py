"""An event as one line of text, for the app and for stderr alike."""

from __future__ import annotations

from typing import Literal

from ultra_sdk.agent import (
    Checked,
    Compacted,
    Edited,
    Event,
    Finished,
    Loaded,
    Notice,
    PermissionGiven,
    ToolAnswered,
    ToolCalled,
)
from ultra_sdk.agent.truncate import clean

Tone = Literal["muted", "plain", "good", "bad", "warning"]
MAX_CHARS = 200
SHOWN_FAILURES = 3


def line(event: Event) -> tuple[str, Tone] | None:
    """What there is to say, and how; None for events that are shown otherwise or not at all."""
    match event:
        case Loaded(kind=kind, path=path, cut=cut):
            what = {"instructions": "read", "skill": "skill", "file": "attached"}[kind]
            return f"· {what} {path}{' (its beginning)' if cut else ''}", "muted"
        case Notice(text=text):
            return f"▲ {_one(text)}", "warning"
        case ToolCalled(tool="bash", arguments=arguments):
            return f"$ {_one(command(arguments))}", "plain"
        case ToolCalled(tool=tool, arguments=arguments) if tool in ("read", "grep", "glob"):
            return f"· {tool} {_one(_values(arguments))}", "muted"
        case Edited(path=path, kind=kind, added=added, removed=removed):
            return f"± {kind} {_one(path)} +{added} -{removed}", "plain"
        case Checked():
            return _check(event)
        case PermissionGiven(answer="deny"):
            return "✕ you refused it", "warning"
        case ToolAnswered(ok=False, tool=tool, text=text) if tool != "check":
            return f"✕ {_one(_reason(text))}", "bad"
        case Compacted(before=before, after=after, how=how):
            words = {"results": "old outputs left out", "summary": "summed up", "cut": "cut"}[how]
            return f"· conversation {words}: about {before:,} to {after:,} tokens", "muted"
        case _:
            return None


def ending(event: Finished) -> tuple[str, Tone]:
    """How a turn ended."""
    words: dict[str, tuple[str, Tone]] = {
        "gave_up": ("▲ gave up", "warning"),
        "permission": ("▲ permission needed", "warning"),
        "failed": ("✕ failed", "bad"),
        "cancelled": ("■ stopped", "warning"),
        "done": ("done", "muted"),
    }
    said, tone = words[event.reason]
    if event.reason == "done" and event.verified is not None:
        said, tone = (
            ("✓ verified by the project's checks", "good")
            if event.verified
            else ("▲ not verified", "warning")
        )
    why = f": {_one(event.why)}" if event.why and event.reason != "cancelled" else ""
    steps = f"{event.steps} step{'' if event.steps == 1 else 's'}"
    tokens = f"{event.output_tokens:,} token{'' if event.output_tokens == 1 else 's'}"
    return f"{said}{why} · {steps} · {tokens} · {event.seconds:.0f} s", tone


def command(arguments: dict[str, object] | str) -> str:
    """The command of a call of bash."""
    return arguments if isinstance(arguments, str) else str(next(iter(arguments.values()), ""))


def _check(event: Checked) -> tuple[str, Tone]:
    if event.passed:
        return f"✓ {event.name} passed in {event.seconds:.1f} s", "good"
    names = ", ".join(failure.name for failure in event.failures[:SHOWN_FAILURES])
    more = len(event.failures) - SHOWN_FAILURES
    names += f" and {more} more" if more > 0 else ""
    return f"✕ {event.name}: {_one(names or event.why)}", "bad"


def _reason(text: str) -> str:
    """Of a failed command its last line, which says most; else the first line."""
    lines = [each for each in text.splitlines() if each.strip()] or [""]
    return f"{lines[0]}: {lines[-1]}" if lines[0].startswith("exit code") and len(lines) > 1 else lines[0]


def _values(arguments: dict[str, object] | str) -> str:
    given = [arguments] if isinstance(arguments, str) else [str(value) for value in arguments.values()]
    return " ".join(given)


def _one(text: str) -> str:
    row = " ⏎ ".join(part.strip() for part in clean(text).splitlines() if part.strip())
    return row if len(row) <= MAX_CHARS else f"{row[: MAX_CHARS - 1]}…"
