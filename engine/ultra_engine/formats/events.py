"""What a scanner finds in the text of an answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Syntax:
    """Characters that belong to the format alone: tags of reasoning, white space around calls."""

    raw: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call begins. ``index`` counts the calls of an answer from 0."""

    index: int
    name: str
    id: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of a call's arguments: together they are one JSON value, in whatever form the model wrote it."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """A call is whole. ``raw`` is all that the model wrote for it."""

    index: int
    raw: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """Something that was meant as a call and is none: ``why`` tells the model how to write it.

    If it had begun, its `CallStart` and some `CallArguments` came before, with the same index.
    """

    index: int
    raw: str
    why: str


Event = Text | Reasoning | Syntax | CallStart | CallArguments | CallEnd | Malformed


def joined(events: list[Event]) -> list[Event]:
    """The same events with neighbours of one kind made one."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        match last, event:
            case (Text(a), Text(b)):
                out[-1] = Text(a + b)
            case (Reasoning(a), Reasoning(b)):
                out[-1] = Reasoning(a + b)
            case (Syntax(a), Syntax(b)):
                out[-1] = Syntax(a + b)
            case (CallArguments(i, a), CallArguments(j, b)) if i == j:
                out[-1] = CallArguments(i, a + b)
            case _:
                out.append(event)
    return out
