"""A conversation as a model's template wants it.

Clients send turns in one form; templates differ. What a template can do is read from its source: whether it
knows tools, under which name it takes the reasoning of earlier turns, whether it takes more than one call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..formats.lenient import NotJson, whole
from . import plain_tools

Turn = dict[str, Any]


class Arguments(dict[str, Any]):
    """The arguments of a call, for templates that want a mapping and for those that want its JSON."""

    def __init__(self, values: Mapping[str, Any], text: str) -> None:
        super().__init__(values)
        self.text = text

    @classmethod
    def of(cls, given: Any) -> Arguments:
        """Of a mapping, of its JSON, or of what a model wrote instead: that is kept as it is."""
        if isinstance(given, Arguments):
            return given
        if isinstance(given, Mapping):
            return cls(given, json.dumps(given, ensure_ascii=False))
        if given is None or (isinstance(given, str) and not given.strip()):
            return cls({}, "{}")
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        try:
            value = whole(text)
        except NotJson:
            value = text
        return cls(value if isinstance(value, dict) else {"arguments": value}, text)

    def mapped(self, change: Callable[[Any], Any]) -> Arguments:
        """With every value changed, and the text."""
        return Arguments({change(key): change(value) for key, value in self.items()}, change(self.text))

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: object) -> str:
        return self.text + str(other)

    def __radd__(self, other: object) -> str:
        return str(other) + self.text


def prepare(
    source: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> list[Turn]:
    """The turns to render by the template ``source``. ``tools``: name, description, parameters of each.

    A template without tools gets them described in the system turn, calls and their results as text.
    """
    turns = [_turn(message) for message in messages]
    _name_results(turns)
    if not knows_tools(source) and (tools or any(turn.get("role") == "tool" for turn in turns)):
        turns = plain_tools.told(turns, tools)
    elif "tool_calls[0]" in source and not re.search(r"\bfor\s+\w+\s+in\s+\w+(\.|\[.)tool_calls", source):
        turns = _one_call_each(turns)
    for turn in turns:
        _place_reasoning(turn, source)
    return turns


def knows_tools(source: str) -> bool:
    """Whether a template does anything with tools."""
    return re.search(r"\btools\b", source) is not None


def variables(source: str, tools: Sequence[Mapping[str, Any]], reasoning: str) -> dict[str, Any]:
    """What a template gets beside the turns: the tools, and how much to think, in so far as it asks."""
    given: dict[str, Any] = {}
    if tools and knows_tools(source):
        given["tools"] = [plain_tools.function(tool) for tool in tools]
    if reasoning != "auto":
        if "enable_thinking" in source:
            given["enable_thinking"] = reasoning != "off"
        if "reasoning_effort" in source and reasoning != "on":
            given["reasoning_effort"] = "low" if reasoning == "off" else reasoning
    return given


def _turn(message: Mapping[str, Any]) -> Turn:
    """A copy with an empty text for none, and calls in OpenAI's form."""
    turn = {key: value for key, value in message.items() if value is not None}
    turn["content"] = message.get("content") or ""
    calls = [_call(call) for call in turn.pop("tool_calls", None) or ()]
    if calls:
        turn["tool_calls"] = calls
    return turn


def _call(call: Mapping[str, Any]) -> Turn:
    inner = call.get("function")
    function = inner if isinstance(inner, Mapping) else call
    named = {"name": str(function.get("name", "")), "arguments": Arguments.of(function.get("arguments"))}
    return {"id": str(call.get("id") or ""), "type": "function", "function": named}


def _name_results(turns: list[Turn]) -> None:
    """Give results the name of the tool, which some templates want and most clients leave out."""
    names: dict[str, str] = {}
    for turn in turns:
        for call in turn.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
        if turn.get("role") == "tool" and "name" not in turn and turn.get("tool_call_id") in names:
            turn["name"] = names[turn["tool_call_id"]]


def _one_call_each(turns: list[Turn]) -> list[Turn]:
    """For templates that render one call a turn: a turn for each call, its result behind it."""
    out: list[Turn] = []
    results = [turn for turn in turns if turn.get("role") == "tool"]
    moved: set[int] = set()
    for turn in turns:
        calls = turn.get("tool_calls", ())
        if len(calls) < 2:
            if id(turn) not in moved:
                out.append(turn)
            continue
        for index, call in enumerate(calls):
            words = turn if index == 0 else {"role": turn["role"], "content": ""}
            out.append({**words, "tool_calls": [call]})
            found = [result for result in results if result.get("tool_call_id") == call["id"] and call["id"]]
            out += found
            moved |= {id(result) for result in found}
    return out


def _place_reasoning(turn: Turn, source: str) -> None:
    """Put the reasoning of a turn where the template looks for it."""
    reasoning = turn.pop("reasoning", None) or turn.pop("reasoning_content", None)
    if not reasoning:
        return
    if "reasoning_content" in source:
        turn["reasoning_content"] = reasoning
    if re.search(r"\bmessage(\.thinking\b|\[.thinking.\])", source):
        turn["thinking"] = reasoning
        if turn.get("tool_calls") and turn["content"]:  # gpt-oss's template takes only one of the two
            turn["thinking"], turn["content"] = f"{reasoning}\n\n{turn['content']}", ""
