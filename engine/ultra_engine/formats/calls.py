"""Calls out of JSON values, under the many names that models give the parts of a call."""

from __future__ import annotations

import json
from typing import Any

from .lenient import NotJson, whole
from .tools import Tools

NAMES = ("name", "tool", "tool_name", "function", "action", "recipient_name")
ARGUMENTS = ("arguments", "parameters", "args", "input", "params", "kwargs", "action_input")
OTHER = ("id", "type")

Found = tuple[str, str]
"""A call: the name of its tool, and its arguments as JSON."""


def plain(name: str) -> str:
    """The name of a tool without what some models put before it."""
    return name.strip().removeprefix("functions.").strip()


def from_value(value: Any, tools: Tools, known: bool) -> list[Found] | None:
    """The calls that a JSON value is; None if it is none.

    ``known``: only calls of tools that were offered count, since the value may be anything.
    """
    if isinstance(value, list):
        each = [from_value(item, tools, known) for item in value]
        return [call for calls in each for call in calls or ()] if each and all(each) else None
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("function"), dict):
        return from_value(value["function"], tools, known)
    name = next((plain(value[key]) for key in NAMES if isinstance(value.get(key), str)), "")
    if not name:
        # {"read": {"path": "a"}} is written now and then.
        only = next(iter(value)) if len(value) == 1 else ""
        return [(only, arguments(value[only]))] if only in tools else None
    if known and name not in tools:
        return None
    given = next((value[key] for key in ARGUMENTS if key in value), None)
    if given is None:
        given = {key: item for key, item in value.items() if key not in (*NAMES, *OTHER)}
    return [(name, arguments(given))]


def arguments(given: Any) -> str:
    """The JSON of a call's arguments. A text that holds an object is that object."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = whole(given)
        except NotJson:
            pass
    return json.dumps({} if given is None else given, ensure_ascii=False)


def plausible(key: str, name: str, tools: Tools) -> bool:
    """Whether an object with this key may still be a call; ``name`` is the tool's if it is known already."""
    if key in NAMES or key in ARGUMENTS or key in OTHER:
        return True
    return tools.has(name, key) if name else key in tools


def no_call(value: Any) -> str:
    """Why a value is no call, for the model to read."""
    if value == [] or value is None:
        return "the tool call is empty"
    return 'the tool call has no name; write {"name": "...", "arguments": {...}}'
