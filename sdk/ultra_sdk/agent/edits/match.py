"""Finding the text that an edit replaces.

In this order: the same lines; the same lines but for their indentation and trailing space; the same text
inside lines; the same lines but for all white space. Each must be there exactly once. There is no guessing by
edit distance: what is not found is answered with the lines of the file that come nearest.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher

from ..errors import AmbiguousMatch, BadEdit, NoMatch
from ..workspace.text import split_lines
from .indent import reindented

SHOWN = 20
"""How many of the nearest lines a refusal shows."""
WORD = re.compile(r"\w+")


def replace_text(content: str, old: str, new: str, *, every: bool = False, where: str = "the file") -> str:
    """Replace ``old`` as it stands, once or everywhere; nothing in ``new`` has a meaning of its own.

    replace_text("a = 1\\n", "1", r"\\1")   # "a = \\\\1\\n"

    Raises `NoMatch`, `AmbiguousMatch` unless ``every``, `BadEdit` for an empty ``old``.
    """
    if not old:
        raise BadEdit("the text to replace is empty")
    count = content.count(old)
    if count == 0:
        return replace_lines(content, old, new, where=where)
    if count > 1 and not every:
        starts = [found.start() for found in re.finditer(re.escape(old), content)]
        raise _ambiguous(where, [content.count("\n", 0, start) for start in starts])
    return content.replace(old, new)


def replace_lines(
    content: str, search: str, replace: str, *, exact: bool = False, where: str = "the file"
) -> str:
    """Replace the lines ``search`` by the lines ``replace``; with ``exact``, only where they are the same.

    Raises `NoMatch`, `AmbiguousMatch`, `BadEdit`.
    """
    lines, wanted, new = split_lines(content), split_lines(search), split_lines(replace)
    if not search.strip():
        if content.strip():
            raise BadEdit(f"SEARCH is empty but {where} is not; quote the lines to replace")
        return replace
    at = _once(lines, wanted, where)
    if at is not None:
        return _spliced(content, lines, at, at + len(wanted), new)
    if exact:
        raise NoMatch(f"SEARCH is not in {where}")
    result = (
        _loosely(content, lines, wanted, new, str.strip, where)
        or _inside(content, search, replace, where)
        or _loosely(content, lines, wanted, new, lambda line: "".join(line.split()), where)
    )
    if result is None:
        raise NoMatch(_advice(lines, wanted, new, where))
    return result


def find(lines: list[str], wanted: list[str]) -> list[int]:
    """Every index at which ``wanted`` stands in ``lines``."""
    if not wanted:
        return []
    n, first = len(wanted), wanted[0]
    return [i for i in range(len(lines) - n + 1) if lines[i] == first and lines[i : i + n] == wanted]


def _once(lines: list[str], wanted: list[str], where: str) -> int | None:
    found = find(lines, wanted)
    if len(found) > 1:
        raise _ambiguous(where, found)
    return found[0] if found else None


def _spliced(content: str, lines: list[str], start: int, end: int, new: list[str]) -> str:
    result = [*lines[:start], *new, *lines[end:]]
    return "\n".join(result) + ("\n" if result and (content.endswith("\n") or not lines) else "")


def _loosely(
    content: str, lines: list[str], wanted: list[str], new: list[str], key: Callable[[str], str], where: str
) -> str | None:
    """Compare lines by ``key``; blank lines around what is wanted do not count."""
    wanted, new = _trimmed(wanted, new)
    at = _once([key(line) for line in lines], [key(line) for line in wanted], where)
    if at is None:
        return None
    there = lines[at : at + len(wanted)]
    shifted = reindented(wanted, there, new)
    if shifted is None:
        return None
    # A line that the edit only quotes keeps the file's bytes.
    for _, a, b, c, d in SequenceMatcher(None, wanted, new, autojunk=False).get_opcodes():
        if wanted[a:b] == new[c:d]:
            shifted[c:d] = there[a:b]
    return _spliced(content, lines, at, at + len(wanted), shifted)


def _trimmed(wanted: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    for end in (0, -1):
        while wanted and not wanted[end].strip():
            wanted = wanted[1:] if end == 0 else wanted[:-1]
            if new and not new[end].strip():
                new = new[1:] if end == 0 else new[:-1]
    return wanted, new


def _inside(content: str, search: str, replace: str, where: str) -> str | None:
    """The text inside lines, where it does not cut a word in two."""
    old, new = search.removesuffix("\n"), replace.removesuffix("\n")
    left = r"(?<!\w)" if WORD.match(old) else ""
    right = r"(?!\w)" if WORD.match(old[-1:]) else ""
    found = [match.start() for match in re.finditer(left + re.escape(old) + right, content)]
    if len(found) > 1:
        raise _ambiguous(where, [content.count("\n", 0, start) for start in found])
    return content[: found[0]] + new + content[found[0] + len(old) :] if found else None


def _ambiguous(where: str, starts: list[int]) -> AmbiguousMatch:
    lines = ", ".join(str(start + 1) for start in starts[:8]) + (", ..." if len(starts) > 8 else "")
    return AmbiguousMatch(
        f"the text to replace is in {where} {len(starts)} times (lines {lines}); "
        "quote more lines above or below it, so that it is there once"
    )


def _advice(lines: list[str], wanted: list[str], new: list[str], where: str) -> str:
    if new and find([line.strip() for line in lines], [line.strip() for line in new]):
        return f"SEARCH is not in {where}, but the lines of REPLACE are: the edit seems to be done already"
    start, end = nearest(lines, wanted)
    shown = "\n".join(f"{i + 1:>5}  {lines[i]}" for i in range(start, end))
    return f"SEARCH is not in {where}. Copy the lines as they are; the nearest ones:\n{shown}"


def nearest(lines: list[str], wanted: list[str], shown: int = SHOWN) -> tuple[int, int]:
    """The part of at most ``shown`` lines that has most in common with what was wanted."""
    exact = {line.strip() for line in wanted if line.strip()}
    words = {word for line in wanted for word in WORD.findall(line) if len(word) > 2}
    scores = []
    for line in lines:
        own = {word for word in WORD.findall(line) if len(word) > 2}
        alike = len(own & words) / len(own | words) if own else 0.0
        scores.append(2.0 if line.strip() in exact else alike)
    if len(lines) <= shown:
        return 0, len(lines)
    best = total = sum(scores[:shown])
    start = 0
    for i in range(1, len(lines) - shown + 1):
        total += scores[i + shown - 1] - scores[i - 1]
        if total > best + 1e-9:
            best, start = total, i
    # What matched is moved to the middle: the window slid until its last line was good.
    start = min(start + (shown - min(len(wanted), shown)) // 2, len(lines) - shown)
    return start, start + shown
