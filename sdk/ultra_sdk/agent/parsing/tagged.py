"""Tool calls between tags: Hermes and Qwen (JSON), Qwen3-Coder (functions with raw parameters), GLM (pairs).

These are not XML: a parameter's value is code as it is, with ``<`` and ``&`` and even tags in it. So tags are
looked for from the outside in, and whatever stands between the outermost ones is the value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from .calls import Call, Found, Problem, from_json

OPEN = re.compile(r"<(tool_call|tools|function_call|tool)>\s*|<function=")
FUNCTION = re.compile(r"<function=\s*\"?([\w.:-]+)\"?\s*>")
PARAMETER = re.compile(r"<parameter=\s*\"?([\w.:-]+)\"?\s*>")
FUNCTION_END = re.compile(r"</parameter>\s*</function>|</function>\s*</tool_call>|</function>\s*\Z")
VALUE_END = re.compile(r"</(?:parameter|function)>\s*\Z")
PAIR = re.compile(r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|\Z)", re.DOTALL)


def tagged(text: str, tools: Mapping[str, Collection[str]]) -> tuple[list[Found], list[tuple[int, int]]]:
    """The calls between tags, and where they stand in the text. ``tools``: the parameters of each tool."""
    found: list[Found] = []
    spans: list[tuple[int, int]] = []
    at = 0
    while (opening := OPEN.search(text, at)) is not None:
        start = opening.start()
        body = start if opening[1] is None else opening.end()
        rest = text[body:]
        if FUNCTION.match(rest):
            calls, used = _function(rest, tools)
        elif opening[1] is None:
            at = opening.end()
            continue
        elif opening[1] == "tool_call" and re.match(r"[\w.-]+\s*(?:<arg_key>|</tool_call>|\Z)", rest):
            calls, used = _pairs(rest, tools)
        else:
            calls, used = _json(rest, opening[1], tools)
        end = body + used
        close = re.compile(rf"\s*</{opening[1] or 'tool_call'}>").match(text, end)
        at = close.end() if close else end
        found += calls
        spans.append((start, at))
    return found, spans


def _json(rest: str, tag: str, tools: Mapping[str, Collection[str]]) -> tuple[list[Found], int]:
    """JSON up to the closing tag; the tag may be missing, and may stand in a string of the JSON."""
    ends = [match.start() for match in re.finditer(rf"</{tag}>|<{tag}>", rest)] + [len(rest)]
    first: list[Found] | None = None
    for end in ends:
        calls = from_json(rest[:end], list(tools))
        if all(isinstance(call, Call) for call in calls):
            return calls, end
        first = first or calls
    assert first is not None
    return first, ends[0]


def _function(rest: str, tools: Mapping[str, Collection[str]]) -> tuple[list[Found], int]:
    head = FUNCTION.match(rest)
    assert head is not None
    following = re.compile(r"(?:</function>|</tool_call>)\s*(?:<tool_call>\s*)?<function=").search(
        rest, head.end()
    )
    limit = following.start() + len("</function>") if following else len(rest)
    ending = FUNCTION_END.search(rest[:limit], head.end()) or re.compile(r"</function>|</tool_call>").search(
        rest[:limit], head.end()
    )
    body = rest[head.end() : ending.start() if ending else limit]
    used = ending.end() if ending else limit
    if ending and ending[0].endswith("</tool_call>"):
        used -= len("</tool_call>")
    name = head[1].removeprefix("functions.")
    if name not in tools:
        return [Problem(f"there is no tool {name}; there are: {', '.join(tools)}")], used
    arguments = _parameters(body, tools[name])
    if not ending and arguments:
        return [Problem(f"the call of {name} is cut off; write it again, shorter")], used
    return [Call(name, arguments)], used


def _parameters(body: str, known: Collection[str]) -> dict[str, str]:
    """Raw values. A tag of an unknown name is part of the value before it; at the start it is dropped."""
    marks = [mark for mark in PARAMETER.finditer(body) if mark[1] in known] or list(PARAMETER.finditer(body))
    marks = [mark for i, mark in enumerate(marks) if i == 0 or _begins(body, mark.start())]
    values: dict[str, str] = {}
    for i, mark in enumerate(marks):
        end = marks[i + 1].start() if i + 1 < len(marks) else len(body)
        value = body[mark.end() : end]
        if closing := VALUE_END.search(value):
            value = value[: closing.start()]
        value = value.removeprefix("\r\n").removeprefix("\n")
        values.setdefault(mark[1], value.removesuffix("\n").removesuffix("\r"))
    return values


def _begins(body: str, at: int) -> bool:
    """Whether a parameter's tag is the model's own: behind a closing tag, or at the start of a line."""
    if VALUE_END.search(body[:at]):
        return True
    return "</parameter>" not in body[:at] and body[:at].endswith("\n")


def _pairs(rest: str, tools: Mapping[str, Collection[str]]) -> tuple[list[Found], int]:
    close = re.search(r"</arg_value>\s*</tool_call>|\A[\w.-]+\s*</tool_call>", rest)
    end = close.end() - len("</tool_call>") if close else len(rest)
    body = rest[:end]
    head = re.match(r"[\w.-]+", body)
    assert head is not None
    if head[0] not in tools:
        return [Problem(f"there is no tool {head[0]}; there are: {', '.join(tools)}")], end
    if close is None and "<arg_value>" in body:
        return [Problem(f"the call of {head[0]} is cut off; write it again, shorter")], end
    return [Call(head[0], {key: value for key, value in PAIR.findall(body)})], end
