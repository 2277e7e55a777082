"""The tool `read`: a file's lines with their numbers."""

from __future__ import annotations

import asyncio
import difflib
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ..errors import NoSuchFile
from ..workspace.scan import files, scan
from .base import Context, Params, Result, Tool

MAX_NAMES = 200


class Read(Params, frozen=True, kw_only=True):
    path: Annotated[str, Meta(description="file or folder, relative to the project")]
    start: Annotated[int, Meta(description="first line, from 1")] = 1
    lines: Annotated[int, Meta(description="how many lines")] = 0


@dataclass(frozen=True, slots=True)
class ReadResult(Result):
    """Lines ``start`` to ``end`` (both included, from 1) of ``total``."""

    path: str = ""
    start: int = 0
    end: int = 0
    total: int = 0


async def run(context: Context, params: Read) -> Result:
    """Raises `WorkspaceError`."""
    return await asyncio.to_thread(_read, context, params)


def _read(context: Context, params: Read) -> Result:
    files_, limits = context.workspace, context.limits
    if (files_.root.path / params.path).is_dir():
        return _folder(context, params.path)
    try:
        reading = files_.read(params.path)
    except NoSuchFile as error:
        raise NoSuchFile(params.path, error.reason + _similar(context, params.path)) from None
    lines = reading.text.lines
    start = max(params.start, 1)
    wanted = min(params.lines if params.lines > 0 else limits.read_lines, limits.read_lines)
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[start - 1 : start - 1 + wanted], start):
        text = f"{number:>5}  {_cut(line, limits.line_chars)}"
        size += len(text) + 1
        if size > limits.read_chars and shown:
            break
        shown.append(text)
    end = start + len(shown) - 1
    if not lines:
        shown.append("[the file is empty]")
    elif not shown:
        shown.append(f"[the file has only {len(lines)} lines]")
    elif end < len(lines):
        shown.append(f"[lines {start}-{end} of {len(lines)}; read on with start={end + 1}]")
    return ReadResult("\n".join(shown), True, reading.path, start, end, len(lines))


def _folder(context: Context, name: str) -> Result:
    path = context.workspace.root.locate(name)
    prefix = "" if path == "." else path + "/"
    found = [each for each in scan(context.workspace.root, path) if "/" not in each.path.removeprefix(prefix)]
    names = [each.path + ("/" if each.kind == "folder" else "") for each in found if each.kind != "ignored"]
    more = [f"[{len(names) - MAX_NAMES} more]"] if len(names) > MAX_NAMES else []
    return ReadResult(
        "\n".join(names[:MAX_NAMES] + more) or "[the folder is empty]", True, path, 0, 0, len(names)
    )


def _similar(context: Context, name: str) -> str:
    known = files(context.workspace.root)
    wanted = name.rpartition("/")[2]
    same = [path for path in known if path.rpartition("/")[2] == wanted]
    close = (same or difflib.get_close_matches(name, known[:5000], 3))[:3]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _cut(line: str, limit: int) -> str:
    return line if len(line) <= limit else f"{line[:limit]} [... {len(line) - limit:,} more characters]"


TOOL = Tool("read", "Read a file with line numbers, or list a folder.", Read, "read", run)
