"""The tool `glob`: the project's files by name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ..workspace.globs import matches
from ..workspace.scan import files
from .base import Context, Params, Result, Tool

MAX_NAMES = 200


class Glob(Params, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(description="such as *.py or src/**/*.ts")]
    path: Annotated[str, Meta(description="folder to look in")] = "."


@dataclass(frozen=True, slots=True)
class GlobResult(Result):
    """The paths that match, at most 200 of ``total``."""

    paths: tuple[str, ...] = ()
    total: int = 0


async def run(context: Context, params: Glob) -> Result:
    """Raises `WorkspaceError`."""
    return await asyncio.to_thread(_glob, context, params)


def _glob(context: Context, params: Glob) -> Result:
    root = context.workspace.root
    start = root.locate(params.path)
    prefix = "" if start == "." else start + "/"
    # A pattern with the folder's own path is meant from the project down.
    found = [
        path
        for path in files(root, start)
        if matches(params.pattern, path.removeprefix(prefix)) or matches(params.pattern, path)
    ]
    shown = found[:MAX_NAMES]
    more = [f"[{len(found) - len(shown)} more; narrow the pattern]"] if len(found) > len(shown) else []
    return GlobResult("\n".join(shown + more) or "no file matches", True, tuple(shown), len(found))


TOOL = Tool("glob", "List files whose path matches a glob pattern.", Glob, "read", run)
