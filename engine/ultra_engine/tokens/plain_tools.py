"""Tools for models whose template knows none: told in words, in the form that most models have seen."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Tool = Mapping[str, Any]
Turn = dict[str, Any]

_HEAD = """\
You can call tools. Each line between <tools> and </tools> describes one, its parameters as a JSON schema:

<tools>
{tools}
</tools>

To call one, write its name and its arguments as JSON, and nothing after them:

<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>

Each result comes back between <tool_response> and </tool_response>. Call a tool only if you need it."""


def function(tool: Tool) -> dict[str, Any]:
    """A tool as templates take it, in OpenAI's form."""
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "parameters": parameters,
        },
    }


def told(turns: Sequence[Turn], tools: Sequence[Tool]) -> list[Turn]:
    """The same conversation without roles and fields that only templates with tools know."""
    out: list[Turn] = []
    for turn in turns:
        plain = _plain(turn)
        if turn.get("role") == "tool" and out and out[-1].get("results"):
            out[-1]["content"] += "\n" + plain["content"]
        else:
            out.append(plain)
    for turn in out:
        turn.pop("results", None)
    if tools:
        text = _HEAD.format(tools="\n".join(_json(function(tool)["function"]) for tool in tools))
        if out and out[0].get("role") == "system":
            out[0]["content"] = "\n\n".join(filter(None, (out[0]["content"], text)))
        else:
            out.insert(0, {"role": "system", "content": text})
    return out


def _plain(turn: Turn) -> Turn:
    plain = {key: value for key, value in turn.items() if key not in ("tool_calls", "tool_call_id")}
    if turn.get("role") == "tool":
        name = f" name={_json(turn['name'])}" if turn.get("name") else ""
        text = f"<tool_response{name}>\n{turn['content']}\n</tool_response>"
        return {"role": "user", "content": text, "results": True}
    calls = [_written(call["function"]) for call in turn.get("tool_calls", ())]
    plain["content"] = "\n".join(filter(None, (turn["content"], *calls)))
    return plain


def _written(function: Mapping[str, Any]) -> str:
    name, arguments = _json(function["name"]), function["arguments"]
    return f'<tool_call>\n{{"name": {name}, "arguments": {arguments}}}\n</tool_call>'


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
