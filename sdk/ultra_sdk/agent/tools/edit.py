"""The tool `edit`: SEARCH/REPLACE blocks, all of them or none."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ..edits.diff import counts, show
from ..edits.plan import Plan
from ..truncate import shorten
from ..workspace.files import Change
from .base import Context, Params, Result, Tool


class Edit(Params, frozen=True, kw_only=True):
    blocks: Annotated[
        str,
        Meta(
            description="blocks of: the file's path in a line, <<<<<<< SEARCH, lines as they are, "
            "=======, lines as they should be, >>>>>>> REPLACE"
        ),
    ]
    path: Annotated[str, Meta(description="file, for blocks without a path")] = ""


@dataclass(frozen=True, slots=True)
class EditResult(Result):
    """What was changed, with the diff to show."""

    changes: tuple[Change, ...] = ()
    diff: str = ""


async def run(context: Context, params: Edit) -> Result:
    """Raises `EditError`, `WorkspaceError`."""
    return await asyncio.to_thread(_edit, context, params)


def _edit(context: Context, params: Edit) -> Result:
    return told(context, planned(context, params).commit())


def planned(context: Context, params: Edit) -> Plan:
    """The edit, not yet made. Raises `EditError`, `WorkspaceError`."""
    plan = Plan(context.workspace)
    if "@@" in params.blocks and "+++ " in params.blocks and " SEARCH" not in params.blocks:
        plan.diff(params.blocks)
    else:
        plan.blocks(params.blocks, params.path or None)
    return plan


def told(context: Context, changes: list[Change], *, brief: bool = False) -> Result:
    """What a model is told of changes that were made; ``brief`` for what it wrote out itself."""
    changed = [change for change in changes if change.changed]
    if not changed:
        return EditResult("nothing changed: that is what the file has already", False, tuple(changes))
    lines = []
    for change in changed:
        added, removed = counts(change)
        verb = "created" if change.before is None else "removed" if change.after is None else "edited"
        lines.append(f"{verb} {change.path} (+{added} -{removed})")
    diff = "".join(show(change) for change in changed)
    text = "\n".join(lines)
    if not brief:
        text += "\n" + shorten(diff, context.limits.output_chars // 2, "the files")
    return EditResult(text, True, tuple(changed), diff)


TOOL = Tool("edit", "Edit files by SEARCH/REPLACE blocks.", Edit, "edit", run, raw="blocks")
