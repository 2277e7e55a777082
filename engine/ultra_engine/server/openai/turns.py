"""The messages of a chat, checked: turns as the engine takes them."""

from __future__ import annotations

from typing import Any

from .errors import ApiError
from .fields import Fields

ROLES = ("system", "developer", "user", "assistant", "tool")


def read_messages(fields: Fields) -> list[dict[str, Any]]:
    messages = fields.raw("messages")
    if not isinstance(messages, list) or not messages:
        raise fields.wrong("messages", "must be a non-empty list of messages")
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise ApiError(f"{where} must be an object with role and content", param=where)
    fields = Fields(message, where)
    role = fields.string("role")
    if role not in ROLES:
        raise fields.wrong("role", f"must be one of {', '.join(ROLES)}")
    plain: dict[str, Any] = {"role": "system" if role == "developer" else role}
    content = _content(fields)
    if content is None and role != "assistant":
        raise ApiError(f"{where} has no content", param=f"{where}.content")
    plain["content"] = content or ""
    if role == "tool" and not fields.string("tool_call_id"):
        raise ApiError(f"{where} has no tool_call_id", param=f"{where}.tool_call_id")
    for name in ("name", "tool_call_id"):
        if (text := fields.string(name)) is not None:
            plain[name] = text
    reasoning = fields.string("reasoning_content") or fields.string("reasoning")
    if reasoning and role == "assistant":
        plain["reasoning"] = reasoning
    if fields.raw("tool_calls") is not None:
        plain["tool_calls"] = _calls(fields, where)
    return plain


def _calls(fields: Fields, where: str) -> list[dict[str, Any]]:
    calls = fields.raw("tool_calls")
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        raise fields.wrong("tool_calls", "must be a list of objects")
    for index, call in enumerate(calls):
        function = Fields(call, f"{where}.tool_calls[{index}]").object("function")
        if not function.string("name"):
            raise function.wrong("name", "must be the name of a tool")
        if not isinstance(function.raw("arguments"), (str, dict, type(None))):
            raise function.wrong("arguments", "must be a text of JSON")
    return calls


def _content(fields: Fields) -> str | None:
    content = fields.raw("content")
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise fields.wrong("content", "must be a text or a list of text parts")
    texts = [part.get("text") if isinstance(part, dict) else None for part in content]
    kinds = [part.get("type") if isinstance(part, dict) else None for part in content]
    if any(kind != "text" for kind in kinds) or not all(isinstance(text, str) for text in texts):
        raise fields.wrong("content", 'may only have parts {"type": "text", "text": "..."}')
    return "".join(str(text) for text in texts)
