"""The tools by name: what a model is shown, and calls made from what a model wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..errors import AgentError, ToolError
from ..permissions import Decision, decide, question
from .base import Context, Params, Result, Tool

ALIASES = {
    "path": ("file", "file_path", "filepath", "filename", "file_name", "target_file"),
    "cmd": ("command", "script", "bash", "code"),
    "pattern": ("query", "regex", "search", "expression"),
    "content": ("text", "contents", "file_content", "file_text"),
    "blocks": ("edit", "edits", "diff", "patch", "changes", "search_replace"),
    "start": ("offset", "start_line", "line"),
    "lines": ("limit", "count", "num_lines"),
    "timeout": ("seconds", "timeout_s"),
    "summary": ("message", "result", "answer"),
}
"""Other names by which models call our parameters."""


class Registry:
    """Tools by name.

    registry = Registry(standard())
    result = await registry.call("read", {"path": "main.py"}, context)
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools = {tool.name: tool for tool in tools}

    def schemas(self) -> list[dict[str, Any]]:
        """The tools as chat templates take them: OpenAI's function form, parameters as JSON Schema."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": schema(tool.params),
                },
            }
            for tool in self.tools.values()
        ]

    def permission(self, name: str, context: Context) -> Decision:
        """Whether a call of this tool needs a person's word. Raises `ToolError`."""
        action = self._tool(name).action
        if action == "shell" and context.network:
            action = "network"
        return decide(context.mode, action, context.level)

    def asks(self, name: str, what: str, context: Context) -> str:
        """The question for a person, if `permission` is ``ask``."""
        action = self._tool(name).action
        if action == "shell" and context.network:
            action = "network"
        return question(action, what, context.level)

    async def call(self, name: str, arguments: Mapping[str, Any] | str, context: Context) -> Result:
        """Run a tool. What goes wrong for the model's part is a result that says so, never an exception.

        ``arguments`` as plain text are the tool's raw parameter, or its first one. Whoever asks people asks
        them before; a call that the mode denies is refused here as well.
        """
        try:
            tool = self._tool(name)
            if self.permission(name, context) == "deny":
                raise ToolError(f"{name} is not allowed in {context.mode} mode")
            return await tool.run(context, self.parse(name, arguments))
        except AgentError as error:
            return Result(str(error), ok=False)

    def parse(self, name: str, arguments: Mapping[str, Any] | str) -> Params:
        """The typed parameters of a call. Raises `ToolError`."""
        tool = self._tool(name)
        fields = tool.params.__struct_fields__
        if isinstance(arguments, str):
            only = tool.raw or (fields[0] if fields else None)
            arguments = {only: arguments} if only else {}
        known = {field: _value(field, arguments) for field in fields if _value(field, arguments) is not None}
        try:
            return msgspec.convert(known, tool.params, strict=False)
        except msgspec.ValidationError as error:
            required = [field for field in tool.params.__struct_fields__ if field not in known]
            reason = str(error).replace("Object missing required field", "it needs").replace("`", "")
            hint = f" (given: {', '.join(arguments) or 'nothing'})" if required and "needs" in reason else ""
            raise ToolError(f"{name}: {reason}{hint}") from None

    def _tool(self, name: str) -> Tool:
        if name not in self.tools:
            raise ToolError(f"there is no tool {name}; there are: {', '.join(self.tools)}")
        return self.tools[name]


def schema(params: type[Params]) -> dict[str, Any]:
    """The JSON Schema of a tool's parameters, without references and titles."""
    whole = msgspec.json.schema(params)
    found: dict[str, Any] = dict(whole["$defs"][params.__name__])
    return {key: found[key] for key in ("type", "properties", "required") if key in found}


def _value(field: str, arguments: Mapping[str, Any]) -> Any:
    for name in (field, *ALIASES.get(field, ())):
        if arguments.get(name) is not None:
            return arguments[name]
    return None
