"""Making a conversation shorter, by rule or with the model's summary, never parting a call from its result.

Sizes are characters. Whatever happens, what comes out fits; it may tell less.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import msgspec

from ultra_sdk.errors import EngineError

from .conversation import Entry, Group, chars, groups
from .truncate import shorten

How = Literal["results", "summary", "cut"]
Summarise = Callable[[list[Entry]], Awaitable[str]]

FRESH_GROUPS = 2
"""The last parts, whose results are not touched as long as there is another way."""
OLD_RESULT = 200
"""Longer results of older parts are left out."""
TAIL_SHARE = 0.5
"""Of the budget, for the parts that stay beside a summary."""
MIN_SHRINK = 0.3
"""A summary that saves less is not worth its loss."""
TASK_SHARE = 0.25
ASK = (
    "Stop working for a moment and sum up the conversation so far in at most 150 words, as notes for "
    "yourself: the task, what you found out, which files you changed and how, what is left. Only the notes."
)
LEFT_OUT = "[Earlier parts of the conversation were left out.]"


async def compact(
    entries: Sequence[Entry], budget: int, summarise: Summarise | None = None
) -> tuple[list[Entry], How]:
    """The conversation in at most ``budget`` characters, and how that was done.

    ``summarise`` is asked once at most; if it fails, or says as much as what it replaces, the rule decides.
    """
    short = without_old_results(entries)
    if chars(short) <= budget:
        return short, "results"
    head, tail = _parted(short, int(budget * TAIL_SHARE))
    if summarise is not None and head:
        try:
            notes = (await summarise(list(entries))).strip()
        except EngineError:
            notes = ""
        summed = [_opening(head, tail, notes, budget), *tail]
        if notes and len(notes) <= (1 - MIN_SHRINK) * chars(head) and chars(summed) <= budget:
            return summed, "summary"
    return cut(short, budget), "cut"


def without_old_results(entries: Sequence[Entry]) -> list[Entry]:
    """Long results of all but the last parts replaced by a line that says so."""
    parts = groups(entries)
    old, fresh = parts[:-FRESH_GROUPS], parts[-FRESH_GROUPS:]
    out: list[Entry] = []
    for part in old:
        for entry in part:
            if entry.role == "result" and len(entry.text) > OLD_RESULT:
                entry = _replaced(entry, f"[{len(entry.text):,} characters left out]")
            out.append(entry)
    return out + [entry for part in fresh for entry in part]


def cut(entries: Sequence[Entry], budget: int) -> list[Entry]:
    """The task and as many of the last parts as fit; of the very last, what fits."""
    head, tail = _parted(list(entries), int(budget * (1 - TASK_SHARE)))
    opening = [_opening(head, tail, "", budget)] if head else []
    if chars([*opening, *tail]) <= budget:
        return [*opening, *tail]
    last = groups(tail)[-1] if tail else []
    return _squeezed([*opening, *last], budget)


def _parted(entries: list[Entry], room: int) -> tuple[list[Entry], list[Entry]]:
    """The conversation before and from the point where the rest, the last part at least, fits into ``room``.

    The rest never begins with an answer: templates want a message of the user's first, and get a note.
    """
    parts: list[Group] = groups(entries)
    tail: list[Entry] = []
    while parts and (not tail or chars(parts[-1]) + chars(tail) <= room):
        tail = parts.pop() + tail
    return [entry for part in parts for entry in part], tail


def _opening(head: Sequence[Entry], tail: Sequence[Entry], notes: str, budget: int) -> Entry:
    """The message in the place of ``head``: the task, unless it is still there, and notes."""
    said = [LEFT_OUT]
    if not any(entry.task for entry in tail):
        task = next((entry.text for entry in reversed(head) if entry.task), "")
        if task:
            said.append(_fitted(task, int(budget * TASK_SHARE) - len(LEFT_OUT) - 50))
    if notes:
        said.append(f"Notes so far:\n{notes}")
    return Entry("user", "\n\n".join(said), task=True)


def _squeezed(entries: list[Entry], budget: int) -> list[Entry]:
    """Every text, and every argument of a call, cut to an equal share."""
    share = max((budget - 40 * len(entries)) // max(len(entries), 1), 0)
    out = []
    for entry in entries:
        text = _fitted(entry.text, share // 2 if entry.calls else share)
        out.append(_replaced(entry, text, share // 2))
    return out


def _replaced(entry: Entry, text: str, arguments: int | None = None) -> Entry:
    calls = entry.calls
    if arguments is not None and calls:
        room = arguments // sum(max(len(call.arguments), 1) for call in calls)
        calls = tuple(
            msgspec.structs.replace(
                call,
                arguments=call.arguments[:room]
                if isinstance(call.arguments, str)
                else {
                    key: _fitted(value, room) if isinstance(value, str) else value
                    for key, value in call.arguments.items()
                },
            )
            for call in calls
        )
    return msgspec.structs.replace(entry, text=text, calls=calls)


def _fitted(text: str, limit: int) -> str:
    """Its two ends, in ``limit`` characters at most."""
    if len(text) <= limit:
        return text
    short = shorten(text, max(limit - 120, 0), " ") if limit > 200 else text
    return short if len(short) <= limit else text[: max(limit, 0)]
