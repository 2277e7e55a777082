"""Tool calls as a model was trained to write them: the server renders the tools and reads the calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from ultra_sdk.protocol import ChatMessage, ToolCall

from .conversation import Called, Entry
from .guess import Guess
from .parsing.answer import read_answer
from .parsing.calls import Call
from .reply import Reply

SYSTEM = """You are a coding agent in a project's folder. Look before you change anything, change no more \
than the task needs, and run check after your edits. Call done when the task is finished."""


class Native:
    """Drives a model by its own tool calls.

    ``schemas`` is what the model is shown, ``tools`` the parameters of each tool.
    """

    def __init__(self, schemas: list[dict[str, Any]], tools: Mapping[str, Collection[str]]) -> None:
        self._schemas = schemas
        self._tools = tools

    def opening(self, project: str) -> list[ChatMessage]:
        return [ChatMessage("system", f"{SYSTEM}\n\n{project}" if project else SYSTEM)]

    def messages(self, entries: Sequence[Entry]) -> list[ChatMessage]:
        said: list[ChatMessage] = []
        for entry in entries:
            if entry.role == "result":
                said.append(ChatMessage("tool", entry.text, name=entry.tool or None, tool_call_id=entry.id))
            elif entry.role == "assistant":
                calls = [_wire(index, call) for index, call in enumerate(entry.calls)]
                said.append(ChatMessage("assistant", entry.text, tool_calls=calls or None))
            elif said and said[-1].role == "user":
                said[-1] = ChatMessage("user", f"{said[-1].content}\n\n{entry.text}")
            else:
                said.append(ChatMessage("user", entry.text))
        return said

    def options(self) -> dict[str, Any]:
        return {"tools": self._schemas}

    def read(self, text: str, calls: Sequence[Call], guess: Guess) -> Reply:
        if calls:
            return _done(Reply(text.strip(), tuple(calls)))
        answer = read_answer(text, self._tools)
        return _done(Reply(answer.text, answer.calls, answer.problems, thought=answer.thought))

    def enough(self, text: str) -> bool:
        return False

    def shown(self, path: str, content: str) -> str:
        return f"{path}:\n{content}"


def _wire(index: int, call: Called) -> ToolCall:
    given = call.arguments if isinstance(call.arguments, dict) else {"text": call.arguments}
    return ToolCall(index, call.id, call.tool, msgspec.json.encode(given).decode())


def _done(reply: Reply) -> Reply:
    """A call of ``done`` is the end of the task, not something to do."""
    ends = [call for call in reply.calls if call.name == "done"]
    if not ends:
        return reply
    given = ends[-1].arguments
    said = given if isinstance(given, str) else str(next(iter(given.values()), ""))
    others = tuple(call for call in reply.calls if call.name != "done")
    return Reply(reply.words, others, reply.problems, said.strip() or reply.words, reply.thought)
