"""The tool `write`: a whole file."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta

from ..edits.plan import Plan
from .base import Context, Params, Result, Tool
from .edit import told


class Write(Params, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="file, relative to the project")]
    content: Annotated[str, Meta(description="every line of the file")]


async def run(context: Context, params: Write) -> Result:
    """Raises `EditError`, `WorkspaceError`."""
    return await asyncio.to_thread(_write, context, params)


def _write(context: Context, params: Write) -> Result:
    plan = Plan(context.workspace)
    plan.whole(params.path, params.content)
    return told(context, plan.commit(), brief=True)


TOOL = Tool(
    "write", "Write a whole file: a new one, or one that was read before.", Write, "edit", run, raw="content"
)
