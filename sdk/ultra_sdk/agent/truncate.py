"""Long outputs made short: the beginning and, more of it, the end; repetitions and progress bars folded."""

from __future__ import annotations

import re

LIMIT = 4000
HEAD_SHARE = 0.3
ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
MIN_REPEATS = 3


def shorten(text: str, limit: int = LIMIT, where: str = "") -> str:
    """At most about ``limit`` characters of ``text``; ``where`` says where all of it is.

    shorten("x\\n" * 5000)   # "x\\n[... the line above 4,999 more times ...]\\n"
    """
    text = fold(clean(text))
    if len(text) <= limit:
        return text
    head, tail = _cut(text, int(limit * HEAD_SHARE), limit - int(limit * HEAD_SHARE))
    left = text[len(head) : len(text) - len(tail)]
    lines = left.count("\n")
    kept = f"; all of it is in {where}" if where else "; make the command say less"
    return f"{head}[... {len(left):,} characters in {lines:,} lines left out{kept} ...]\n{tail}"


def clean(text: str) -> str:
    """Without escape sequences; of a line that was overwritten, what was seen last."""
    text = ANSI.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        text = "\n".join(lines)
    return CONTROL.sub("", text)


def fold(text: str) -> str:
    """Lines that repeat, alone or in pairs, said once with their number."""
    lines = text.split("\n")
    out: list[str] = []
    i = 0
    while i < len(lines):
        for size in (1, 2):
            count = _repeats(lines, i, size)
            if count > MIN_REPEATS and any(lines[i : i + size]):
                out += lines[i : i + size]
                which = "line above" if size == 1 else "two lines above"
                out.append(f"[... the {which} {count - 1:,} more times ...]")
                i += count * size
                break
        else:
            out.append(lines[i])
            i += 1
    return "\n".join(out)


def _repeats(lines: list[str], start: int, size: int) -> int:
    count = 1
    first = lines[start : start + size]
    while lines[start + count * size : start + (count + 1) * size] == first:
        count += 1
    return count


def _cut(text: str, head: int, tail: int) -> tuple[str, str]:
    """The two ends, at the ends of lines unless these are far away."""
    at = text.rfind("\n", head // 2, head)
    first = text[: at + 1] if at >= 0 else text[:head] + "\n"
    at = text.find("\n", len(text) - tail, len(text) - tail // 2)
    last = text[at + 1 :] if at >= 0 else text[len(text) - tail :]
    return first if text.startswith(first) else text[:head], last
