"""The tool `grep`: lines of the project that match, grouped by file."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated

from msgspec import Meta

from ..workspace.globs import matches
from ..workspace.scan import files
from .base import Context, Params, Result, Tool
from .search import MAX_FOUND, Match, compiled, search

SHOWN_CHARS = 300


class Grep(Params, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(description="regular expression")]
    path: Annotated[str, Meta(description="file or folder to search")] = "."
    glob: Annotated[str, Meta(description="only files that match, such as *.py")] = ""
    ignore_case: Annotated[bool, Meta(description="a and A are the same")] = False


@dataclass(frozen=True, slots=True)
class GrepResult(Result):
    """The matches that are shown; ``total`` counts up to 2,000."""

    matches: tuple[Match, ...] = ()
    total: int = 0


async def run(context: Context, params: Grep) -> Result:
    """Raises `WorkspaceError`, `ToolError`."""
    return await asyncio.to_thread(_grep, context, params)


def _grep(context: Context, params: Grep) -> Result:
    root = context.workspace.root
    paths = files(root, root.locate(params.path))
    if params.glob:
        paths = [path for path in paths if matches(params.glob, path)]
    found = search(root, paths, params.pattern, params.ignore_case)
    shown = found[: context.limits.matches]
    out = (
        []
        if compiled(params.pattern, False)[1]
        else ["[not a regular expression: searched for as it is written]"]
    )
    for path, group in groupby(shown, key=lambda match: match.path):
        out.append(path)
        out += [f"{match.line:>5}: {_around(match)}" for match in group]
    if len(found) > len(shown):
        total = f"{len(found)}+" if len(found) >= MAX_FOUND else str(len(found))
        out.append(f"[{len(shown)} of {total} matches; narrow the pattern, path or glob]")
    if not found:
        out.append(f"no match in {len(paths)} files")
    return GrepResult("\n".join(out), True, tuple(shown), len(found))


def _around(match: Match) -> str:
    """A long line is cut to where it matches."""
    if len(match.text) <= SHOWN_CHARS:
        return match.text
    start = max(match.column - SHOWN_CHARS // 3, 0)
    part = match.text[start : start + SHOWN_CHARS]
    return ("..." if start else "") + part + ("..." if start + SHOWN_CHARS < len(match.text) else "")


TOOL = Tool("grep", "Search the project's files for a regular expression.", Grep, "read", run)
