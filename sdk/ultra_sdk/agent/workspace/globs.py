"""Glob patterns as git reads them (``*`` stays within a folder, ``**`` does not), as regular expressions."""

from __future__ import annotations

import re
from functools import lru_cache

CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
MAX_BRACES = 64
NOTHING = re.compile(r"(?!)")


@lru_cache(maxsize=4096)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """A whole-path regular expression for one pattern without braces; a broken one matches nothing."""
    try:
        return re.compile(_translate(pattern) + r"\Z", re.DOTALL)
    except re.error:
        return NOTHING


def braces(pattern: str) -> list[str]:
    """``a.{b,c}`` as ``[a.b, a.c]``; unbalanced braces stay as they are."""
    found: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop(0)
        inner = re.search(r"\{([^{}]*,[^{}]*)\}", current)
        if inner is None or len(waiting) + len(found) > MAX_BRACES:
            found.append(current)
        else:
            waiting += [
                current[: inner.start()] + part + current[inner.end() :] for part in inner[1].split(",")
            ]
    return found


def matches(pattern: str, path: str) -> bool:
    """Whether a glob as people write them matches: a pattern without ``/`` is for the file's name alone.

    matches("*.py", "src/a.py"), matches("src/**/*.{c,h}", "src/x/y.h")
    """
    candidates = braces(pattern)
    return any(
        compile_glob(one.lstrip("/") if "/" in one else "**/" + one).match(path) is not None
        for one in candidates
    )


def _translate(pattern: str) -> str:
    out, i = [], 0
    while i < len(pattern):
        rest = pattern[i:]
        if rest.startswith("**/") and (i == 0 or pattern[i - 1] == "/"):
            out.append("(?:.*/)?")
            i += 3
        elif rest == "**" and (i == 0 or pattern[i - 1] == "/"):
            out.append(".+" if i else ".*")
            i += 2
        elif rest[0] == "*":
            out.append("[^/]*")
            i += len(rest) - len(rest.lstrip("*"))
        elif rest[0] == "?":
            out.append("[^/]")
            i += 1
        elif rest[0] == "[":
            text, i = _set(pattern, i)
            out.append(text)
        else:
            i += rest[0] == "\\"
            # A trailing backslash escapes nothing, and such a pattern matches nothing.
            out.append(re.escape(pattern[i]) if i < len(pattern) else "(?!)")
            i += 1
    return "".join(out)


def _set(pattern: str, start: int) -> tuple[str, int]:
    """The set that opens at ``start`` and where it is over; one that never closes matches nothing."""
    i = start + 1
    negated = pattern[i : i + 1] in ("!", "^")
    i += negated
    out: list[str] = []
    first = True
    while i < len(pattern) and (first or pattern[i] != "]"):
        first = False
        named = re.match(r"\[:(\w+):\]", pattern[i:])
        if named:
            out.append(CLASSES.get(named[1], ""))
            i += named.end()
            continue
        i += pattern[i] == "\\"
        low = pattern[i : i + 1]
        i += 1
        if pattern[i : i + 1] == "-" and pattern[i + 1 : i + 2] not in ("]", ""):
            i += 1 + (pattern[i + 1] == "\\")
            high = pattern[i : i + 1]
            i += 1
            if low <= high:
                out.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            out.append(re.escape(low))
    if i >= len(pattern):
        return "(?!)", len(pattern)
    inside = "".join(out)
    if negated:
        return f"[^/{inside}]", i + 1
    return (f"(?!/)[{inside}]" if inside else "(?!)"), i + 1
