"""Tool calls in JSON: between tags, in a fence, or bare."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from .fences import fences
from .lenient import NotJson, parse

NAME_KEYS = ("name", "tool", "tool_name", "function", "action", "recipient_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "kwargs", "action_input")
FENCED = ("json", "tool_call", "tool", "tool_code", "jsonc", "json5", "")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. Arguments that are plain text are the tool's raw parameter."""

    name: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was meant as a call and is none; ``text`` tells the model how to write it."""

    text: str


Found = Call | Problem


def from_value(value: Any, tools: Collection[str]) -> list[Call] | None:
    """The calls that a JSON value is; None if it is none, or of tools that are not there."""
    if isinstance(value, list):
        calls = [from_value(item, tools) for item in value]
        return [call for each in calls for call in each or ()] if calls and all(calls) else None
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        return from_value(inner, tools)
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None:
        # {"read": {"path": "a"}} is written now and then.
        if len(value) == 1 and (only := next(iter(value))) in tools:
            return [Call(only, _arguments(value[only]))]
        return None
    name = name.removeprefix("functions.").strip()
    if name not in tools:
        return None
    given = next((value[key] for key in ARGUMENT_KEYS if key in value), None)
    if given is None:
        given = {
            key: item for key, item in value.items() if key not in NAME_KEYS and key not in ("id", "type")
        }
    return [Call(name, _arguments(given))]


def from_json(text: str, tools: Collection[str]) -> list[Found]:
    """The calls in a text that should be JSON: one value, a list, or several values in a row."""
    found: list[Found] = []
    at = 0
    while text[at:].strip(" \t\r\n,;"):
        at = len(text) - len(text[at:].lstrip(" \t\r\n,;"))
        try:
            value, at = parse(text, at)
        except NotJson as error:
            return [*found, Problem(f"the tool call is not valid JSON ({error} at {_near(text, error.at)})")]
        calls = from_value(value, tools)
        if calls is None:
            return [*found, Problem(_unknown(value, tools))]
        found += calls
    return found or [Problem("the tool call is empty")]


def bare(text: str, tools: Collection[str]) -> list[Call]:
    """Calls in fences or alone in their lines, with the name of a tool that is there."""
    found: list[Call] = []
    inside: set[int] = set()
    for fence in fences(text):
        inside |= set(range(fence.start, fence.end + 1))
        if fence.language in FENCED and fence.closed and fence.content.lstrip()[:1] in ("{", "["):
            calls = from_json(fence.content, tools)
            found += [call for call in calls if isinstance(call, Call)]
    lines = text.split("\n")
    at = line = 0
    while line < len(lines):
        if line not in inside and re.match(r"\s*[\[{]", lines[line]):
            start = sum(len(each) + 1 for each in lines[:line])
            try:
                value, at = parse(text, start)
            except NotJson:
                value = None
            calls_here = from_value(value, tools) if value is not None else None
            if calls_here:
                found += calls_here
                line = text.count("\n", 0, at)
        line += 1
    return found


def _arguments(given: Any) -> dict[str, Any] | str:
    if isinstance(given, str):
        if given.lstrip().startswith("{"):
            try:
                value, end = parse(given)
            except NotJson:
                return given
            if isinstance(value, dict) and not given[end:].strip():
                return value
        return given
    return given if isinstance(given, dict) else {}


def _unknown(value: Any, tools: Collection[str]) -> str:
    name = (
        next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
        if (isinstance(value, dict))
        else None
    )
    if name is None:
        return 'the tool call has no name; write {"name": "...", "arguments": {...}}'
    return f"there is no tool {name}; there are: {', '.join(tools)}"


def _near(text: str, at: int) -> str:
    return repr(text[max(at - 15, 0) : at + 15]) if at < len(text) else "its end"
