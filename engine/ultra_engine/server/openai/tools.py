"""The tools of a chat, and how much the model is to think."""

from __future__ import annotations

import re
from typing import Any

from .errors import ApiError
from .fields import Fields

_NAME = re.compile(r"[\w.-]{1,128}", re.ASCII)
_EFFORTS = {
    "none": "off",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
}


def read_tools(fields: Fields) -> tuple[dict[str, Any], ...]:
    """The functions that may be called. Raises `ApiError` naming the field."""
    tools = fields.raw("tools")
    if tools is None:
        tools = []
    if not isinstance(tools, list):
        raise fields.wrong("tools", "must be a list of functions")
    choice = fields.raw("tool_choice")
    if choice not in (None, "auto", "none"):
        raise fields.wrong("tool_choice", 'can be "auto" or "none"')
    if fields.raw("parallel_tool_calls") is False:
        raise fields.wrong("parallel_tool_calls", "cannot be switched off")
    found = tuple(_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools))
    names = [tool["name"] for tool in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ApiError(f"tools[{index}]: there is another tool {name}", param=f"tools[{index}]")
    return () if choice == "none" else found


def _tool(tool: Any, where: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise ApiError(f"{where} must be an object with type and function", param=where)
    fields = Fields(tool, where)
    if fields.raw("type") not in (None, "function"):
        raise fields.wrong("type", 'can only be "function"')
    function = fields.object("function")
    name = function.string("name") or ""
    if not _NAME.fullmatch(name):
        raise function.wrong("name", "must have letters, digits and _.- only")
    parameters = function.raw("parameters")
    if not isinstance(parameters, (dict, type(None))):
        raise function.wrong("parameters", "must be a JSON schema of an object")
    return {"name": name, "description": function.string("description") or "", "parameters": parameters or {}}


def read_effort(fields: Fields) -> str:
    """How much to think: ``reasoning_effort``, or ``chat_template_kwargs.enable_thinking`` as vLLM has it."""
    effort = fields.string("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        raise fields.wrong("reasoning_effort", f"must be one of {', '.join(_EFFORTS)}")
    given = fields.object("chat_template_kwargs")
    if "enable_thinking" in given:
        return "on" if given.flag("enable_thinking") else "off"
    return "auto" if effort is None else _EFFORTS[effort]
