"""Unified diffs as models write them: the line numbers are a hint, the quoted lines must be there."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import AmbiguousMatch, BadEdit, NoMatch
from ..workspace.text import split_lines
from .match import find, replace_lines

HUNK = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*|.*)")
NOTHING = "/dev/null"


@dataclass(slots=True)
class Hunk:
    """Lines to find and lines to put in their place; ``start`` is the line that the header claims, if any."""

    start: int | None
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    old_open: bool = False
    """Whether the diff says that the old, or the new, text ends without a newline."""
    new_open: bool = False


@dataclass(slots=True)
class FilePatch:
    """The changes of one file; a path of None means that there is none before, or after."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)


def parse_diff(answer: str) -> list[FilePatch]:
    """The file patches of a model's answer. Raises `BadEdit`."""
    lines = [line.removesuffix("\r") for line in answer.split("\n")]
    patches: list[FilePatch] = []
    i = 0
    while i < len(lines):
        if lines[i].startswith(("rename from ", "copy from ", "GIT binary patch")):
            raise BadEdit(f"'{lines[i][:40]}' is not supported here; use the shell to move or copy files")
        if _begins_file(lines, i):
            patches.append(FilePatch(_name(lines[i][4:]), _name(lines[i + 1][4:])))
            i += 2
        elif patches and HUNK.fullmatch(lines[i]):
            hunk, i = _hunk(lines, i)
            patches[-1].hunks.append(hunk)
        else:
            i += 1
    if any(not patch.hunks for patch in patches):
        raise BadEdit("a diff names a file and has no @@ lines for it")
    return patches


def apply_patch(content: str, patch: FilePatch, where: str = "the file") -> str:
    """The content after all hunks, or none of them. Raises `NoMatch`, `AmbiguousMatch`, `BadEdit`."""
    shift = 0
    for hunk in patch.hunks:
        before = content.count("\n")
        content = _apply(content, hunk, shift, where)
        shift += content.count("\n") - before
    return content


def _apply(content: str, hunk: Hunk, shift: int, where: str) -> str:
    lines = split_lines(content)
    if not hunk.old:
        if content:
            raise BadEdit("a hunk only adds lines and quotes none; quote a line above or below in it")
        return "\n".join(hunk.new) + ("" if hunk.new_open or not hunk.new else "\n")
    found = find(lines, hunk.old)
    claimed = (hunk.start - 1 + shift) if hunk.start is not None else -1
    if len(found) > 1 and claimed not in found:
        places = ", ".join(str(at + 1) for at in found[:8])
        raise AmbiguousMatch(
            f"the lines of a hunk are in {where} {len(found)} times (lines {places}) and none is at the line "
            "that its header names; quote more lines around the change"
        )
    if not found:
        try:
            return replace_lines(content, _text(hunk.old), _text(hunk.new), where=where)
        except NoMatch as error:
            raise NoMatch(
                str(error).replace("SEARCH", "a hunk's text").replace("REPLACE", "its result")
            ) from None
    at = claimed if claimed in found else found[0]
    result = [*lines[:at], *hunk.new, *lines[at + len(hunk.old) :]]
    at_end = at + len(hunk.old) == len(lines)
    open_end = hunk.new_open if at_end and (hunk.new_open or hunk.old_open) else not content.endswith("\n")
    return "\n".join(result) + ("" if open_end or not result else "\n")


def _hunk(lines: list[str], start: int) -> tuple[Hunk, int]:
    header = HUNK.fullmatch(lines[start])
    assert header is not None
    counts = (int(header[2] or 1), int(header[4] or 1)) if header[1] else None
    if counts is not None:
        hunk, end = _body(lines, start, counts)
        if (len(hunk.old), len(hunk.new)) == counts and _ended(lines, end):
            return hunk, end
    return _body(lines, start, None)


def _body(lines: list[str], start: int, counts: tuple[int, int] | None) -> tuple[Hunk, int]:
    """The lines of a hunk: as many as its header says, or up to what cannot belong to it."""
    header = HUNK.fullmatch(lines[start])
    hunk = Hunk(int(header[1]) if header and header[1] else None)
    i = start + 1
    while i < len(lines):
        mark, rest = lines[i][:1], lines[i][1:]
        if counts is not None and (len(hunk.old), len(hunk.new)) == counts and mark != "\\":
            break
        if counts is None and _ended(lines, i):
            break
        if mark == "\\":
            hunk.old_open |= lines[i - 1][:1] in ("-", " ")
            hunk.new_open |= lines[i - 1][:1] in ("+", " ")
        elif mark not in ("", " ", "-", "+"):
            break
        if mark in ("", " ", "-"):
            hunk.old.append(rest)
        if mark in ("", " ", "+"):
            hunk.new.append(rest)
        i += 1
    if not hunk.old and not hunk.new:
        raise BadEdit(f"the hunk at line {start + 1} of the diff is empty")
    return hunk, i


def _ended(lines: list[str], i: int) -> bool:
    """Whether line ``i`` is the end of a hunk by itself."""
    if i >= len(lines) or HUNK.fullmatch(lines[i]) or _begins_file(lines, i):
        return True
    if lines[i].startswith(("diff --git ", "```", "index ")):
        return True
    # An empty line is context that lost its space, except where nothing of the diff follows.
    return lines[i] == "" and (i + 1 >= len(lines) or lines[i + 1][:1] not in (" ", "+", "-", "@", "\\", ""))


def _begins_file(lines: list[str], i: int) -> bool:
    return lines[i].startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ ")


def _name(said: str) -> str | None:
    name = said.split("\t")[0].strip().strip('"')
    if name == NOTHING:
        return None
    return name[2:] if name.startswith(("a/", "b/")) else name


def _text(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)
