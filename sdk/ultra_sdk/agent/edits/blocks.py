"""SEARCH/REPLACE blocks.

    path/to/file.py
    <<<<<<< SEARCH
    lines as they are
    =======
    lines as they should be
    >>>>>>> REPLACE

The three marks have seven characters or more, all three the same number, and stand alone in their lines. A
file that holds such lines itself is edited with longer marks; where it is not, the block is read in every way
that is possible, and used if only one of them fits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import AmbiguousMatch, BadEdit, EditError
from .match import replace_lines

START = re.compile(r"(<{7,}) SEARCH(?:[ \t]+(\S.*?))?[ \t]*")
END = re.compile(r"(>{7,}) REPLACE[ \t]*")
DIVIDER = re.compile(r"(={7,})[ \t]*")
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[^`]*")
PATH_LINE = re.compile(
    r"(?:#+ +|[-*] +)?(?:\*\*)?(?:(?P<said>(?:file(?: ?name)?|path) *: *)(?:\*\*)? *)?"
    r"(?P<quote>[`\"']?)(?P<path>.+?)(?P=quote)(?:\*\*)?:?",
    re.IGNORECASE,
)
LONGER = "write the three marks with 9 characters (<<<<<<<<< SEARCH, =========, >>>>>>>>> REPLACE)"


@dataclass(frozen=True, slots=True)
class Block:
    """One block. ``readings`` are the pairs of search and replacement that it may mean."""

    path: str | None
    readings: tuple[tuple[str, str], ...]

    def applied(self, content: str, where: str = "the file") -> str:
        """The content after this edit. Raises `EditError`."""
        if len(self.readings) == 1:
            return replace_lines(content, *self.readings[0], where=where)
        results: dict[str, tuple[str, str]] = {}
        for exact in (True, False):
            for reading in self.readings:
                try:
                    results.setdefault(replace_lines(content, *reading, exact=exact, where=where), reading)
                except EditError:
                    continue
            if results:
                break
        whole = [result for result, reading in results.items() if all(map(_balanced, reading))]
        if len(results) > 1 and len(whole) != 1:
            raise AmbiguousMatch(f"the block has several ======= lines and can be read in two ways; {LONGER}")
        if not results:
            return replace_lines(content, *self.readings[-1], where=where)
        return whole[0] if len(whole) == 1 else next(iter(results))


def parse_blocks(answer: str) -> list[Block]:
    """The blocks of a model's answer; what stands around them is passed over.

    Raises `BadEdit` for a block that is not closed or has no divider.
    """
    lines = answer.split("\n")
    blocks: list[Block] = []
    i = 0
    while i < len(lines):
        start = START.fullmatch(lines[i].rstrip("\r"))
        if start is None:
            if blocks and END.fullmatch(lines[i].rstrip("\r")):
                raise BadEdit(f"there is a second >>>>>>> REPLACE at line {i + 1} of the edit; {LONGER}")
            i += 1
            continue
        end = _end(lines, i, len(start[1]))
        path = _clean(start[2]) if start[2] else _path(lines, i)
        blocks.append(Block(path, _readings(lines[i + 1 : end], len(start[1]))))
        i = end + 1
    return blocks


def _end(lines: list[str], start: int, length: int) -> int:
    for i in range(start + 1, len(lines)):
        line = lines[i].rstrip("\r")
        if (mark := END.fullmatch(line)) and len(mark[1]) == length:
            return i
        if (mark := START.fullmatch(line)) and len(mark[1]) == length:
            raise BadEdit(f"the block that begins at line {start + 1} of the edit is not closed: {LONGER}")
    raise BadEdit(f"the block that begins at line {start + 1} of the edit has no {'>' * length} REPLACE line")


def _readings(body: list[str], length: int) -> tuple[tuple[str, str], ...]:
    def divides(i: int) -> bool:
        mark = DIVIDER.fullmatch(body[i].rstrip("\r"))
        return mark is not None and len(mark[1]) == length

    # Of dividers in a row the last divides: text may end in an underline, and hardly begins with one.
    places = [i for i in range(len(body)) if divides(i) and not (i + 1 < len(body) and divides(i + 1))]
    if not places:
        raise BadEdit(f"a block has no {'=' * length} line between the old lines and the new ones")
    return tuple((_joined(body[:i]), _joined(body[i + 1 :])) for i in places)


def _joined(lines: list[str]) -> str:
    return "".join(line.removesuffix("\r") + "\n" for line in lines)


def _balanced(text: str) -> bool:
    """Whether a text has whole conflicts of a merge, or none."""
    return len(re.findall(r"^<{7} ", text, re.M)) == len(re.findall(r"^>{7} ", text, re.M))


def _path(lines: list[str], start: int) -> str | None:
    """The file name in the line above a block, a fence in between passed over."""
    above = [line.strip() for line in lines[max(start - 3, 0) : start]]
    while above and (not above[-1] or FENCE.fullmatch(above[-1])):
        above.pop()
    return _clean(above[-1]) if above else None


def _clean(line: str) -> str | None:
    found = PATH_LINE.fullmatch(line.strip())
    if found is None or END.fullmatch(line):
        return None
    path = found["path"].strip()
    marked = bool(found["quote"] or found["said"])
    if re.search(r"\s", path) and not marked:
        return None
    named = "." in path.strip(".") or "/" in path or path in ("Makefile", "Dockerfile", "Rakefile", "Gemfile")
    return path if marked or named else None
