"""Scanning in tests: whole answers, and answers cut in any way."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ultra_engine.formats.events import (
    CallArguments,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    Reasoning,
    Syntax,
    Text,
    joined,
)
from ultra_engine.formats.harmony import MARK_CODES, HarmonyScanner
from ultra_engine.formats.scanner import Scanner
from ultra_engine.formats.tagged import TagScanner
from ultra_engine.formats.tools import Tools

SPECS = [
    {
        "name": "read",
        "parameters": {"properties": {"path": {"type": "string"}, "lines": {"type": "integer"}}},
    },
    {"name": "write", "parameters": {"properties": {"path": {"type": "string"}, "content": {}}}},
    {"name": "bash", "parameters": {"properties": {"cmd": {"type": "string"}}}},
]
TOOLS = Tools(SPECS)
NO_TOOLS = Tools()

Make = Callable[[], Scanner]


def tagged(tools: Tools = TOOLS, thinking: bool = False) -> Make:
    return lambda: TagScanner(tools, thinking=thinking, make_id=_ids())


def harmony(tools: Tools = TOOLS) -> Make:
    return lambda: HarmonyScanner(tools, make_id=_ids())


def _ids() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"id{next(numbers)}"


def marked(text: str) -> str:
    """With the marks of gpt-oss as the tokens that they are."""
    for name, code in MARK_CODES.items():
        text = text.replace(name, code)
    return text


def scan(make: Make, pieces: str | Iterable[str], cut: bool = False) -> list[Event]:
    scanner = make()
    events: list[Event] = []
    for piece in [pieces] if isinstance(pieces, str) else pieces:
        events += scanner.push(piece)
    return joined(events + scanner.finish(cut))


def pieces_of(text: str, cuts: Iterable[int]) -> list[str]:
    places = [0, *sorted(cut for cut in set(cuts) if 0 < cut < len(text)), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places)]


def source(events: list[Event]) -> str:
    """The text that the events were found in."""
    out = ""
    for event in events:
        match event:
            case Text(text) | Reasoning(text):
                out += text
            case Syntax(raw) | CallEnd(_, raw) | Malformed(_, raw, _):
                out += raw
    return out


@dataclass
class Found:
    """What an answer comes to."""

    text: str
    reasoning: str
    calls: list[tuple[str, Any]]
    problems: list[str]


def found(events: list[Event]) -> Found:
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    out = Found("", "", [], [])
    for event in events:
        match event:
            case Text(text):
                out.text += text
            case Reasoning(text):
                out.reasoning += text
            case CallStart(index, name, id):
                assert index == len(names.keys() | arguments.keys()) or index not in names
                assert id
                names[index], arguments[index] = name, ""
            case CallArguments(index, text):
                arguments[index] += text
            case CallEnd(index, _):
                out.calls.append((names[index], json.loads(arguments[index])))
            case Malformed(_, _, why):
                out.problems.append(why)
    return out
