"""The tool `write`: a whole file."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from ..edits.partial import merge_definitions
from ..edits.plan import Plan
from ..workspace.text import unified
from .base import Context, Params, Result, Tool
from .edit import told

PYTHON = (".py", ".pyi")


class Write(Params, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="file, relative to the project")]
    content: Annotated[str, Meta(description="every line of the file")]


async def run(context: Context, params: Write) -> Result:
    """Raises `EditError`, `WorkspaceError`."""
    return await asyncio.to_thread(_write, context, params)


def _write(context: Context, params: Write) -> Result:
    plan, names = planned(context, params)
    result = told(context, plan.commit(), brief=True)
    if names and result.ok:
        return replace(result, text=f"{result.text}; only {', '.join(names)} replaced, the rest is as it was")
    return result


def planned(context: Context, params: Write) -> tuple[Plan, tuple[str, ...]]:
    """The edit, not yet made, and the names of the definitions that it replaces, if that is all it has.

    Small models leave the others out when they are asked for a whole Python file.
    """
    plan = Plan(context.workspace)
    content: str = params.content
    names: tuple[str, ...] = ()
    if params.path.endswith(PYTHON) and (reading := context.workspace.peek(params.path)) is not None:
        merged = merge_definitions(reading.text.content, unified(params.content), params.path)
        if merged is not None:
            content, names = merged
    plan.whole(params.path, content)
    return plan, names


TOOL = Tool(
    "write", "Write a whole file: a new one, or one that was read before.", Write, "edit", run, raw="content"
)
