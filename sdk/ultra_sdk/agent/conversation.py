"""What the model has been told and has said, apart from how its protocol writes that down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from .transcript import paired


class Called(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that an answer makes."""

    id: str
    tool: str
    arguments: dict[str, Any] | str


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message of a person (or of the loop in its place), an answer, or the result of a call."""

    role: Literal["user", "assistant", "result"]
    text: str
    id: str = ""
    tool: str = ""
    ok: bool = True
    calls: tuple[Called, ...] = ()
    task: bool = False
    """Whether it is what a person asked for."""


Group = list[Entry]
"""What belongs together: an answer with the results of its calls, or a message."""


def groups(entries: Iterable[Entry]) -> list[Group]:
    """The conversation in parts between which it may be cut: no call is parted from its result."""
    found: list[Group] = []
    for entry in entries:
        if entry.role == "result" and found and found[-1][0].role == "assistant":
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def is_whole(entries: Iterable[Entry]) -> bool:
    """Whether each call has its result, in order, and each result its call."""
    return all(
        [call.id for call in group[0].calls] == [entry.id for entry in group[1:]]
        and group[0].role != "result"
        for group in groups(entries)
    )


def chars(entries: Iterable[Entry]) -> int:
    """How long it is, about, with what a template adds around each message."""
    return sum(len(entry.text) + 24 + _arguments(entry) for entry in entries)


def _arguments(entry: Entry) -> int:
    # The plain protocol writes calls in the text of the answer; only structured arguments come on top.
    return sum(
        len(str(value))
        for call in entry.calls
        if isinstance(call.arguments, dict)
        for value in call.arguments.values()
        if isinstance(value, str) and value not in entry.text
    )


def records(entry: Entry) -> Iterator[dict[str, Any]]:
    """The transcript's records of an entry; those of an answer's calls are written when they begin."""
    if entry.role == "result":
        yield {"type": "result", "id": entry.id, "tool": entry.tool, "ok": entry.ok, "text": entry.text}
    else:
        yield {"type": entry.role, "text": entry.text} | ({"task": True} if entry.task else {})


def rebuilt(lines: Iterable[dict[str, Any]]) -> list[Entry]:
    """The conversation that a transcript tells, fit to be shown to a model again.

    What a killed process left open is closed: each call has its result, and one compacted is as it was then.
    """
    entries: list[Entry] = []
    for record in paired(list(lines)):
        match record.get("type"):
            case "user" | "assistant" as role:
                entries.append(Entry(role, str(record.get("text", "")), task=bool(record.get("task"))))
            case "call" if entries:
                _add_call(entries, record)
            case "result":
                entries.append(_result(record, entries))
            case "compaction":
                entries = msgspec.convert(record.get("entries", []), list[Entry])
    return entries


def _add_call(entries: list[Entry], record: dict[str, Any]) -> None:
    at = next((i for i in range(len(entries) - 1, -1, -1) if entries[i].role == "assistant"), None)
    if at is None:
        return
    given = record.get("arguments")
    arguments = given if isinstance(given, dict | str) else ""
    call = Called(str(record.get("id")), str(record.get("tool")), arguments)
    entries[at] = msgspec.structs.replace(entries[at], calls=(*entries[at].calls, call))


def _result(record: dict[str, Any], entries: list[Entry]) -> Entry:
    name = str(record.get("id"))
    tool = next((call.tool for entry in entries for call in entry.calls if call.id == name), "")
    return Entry("result", str(record.get("text", "")), name, tool, bool(record.get("ok", True)))
