"""Diffs to show: of a change, with what cannot be seen in the lines said in words."""

from __future__ import annotations

from difflib import unified_diff

from ..workspace.files import Change
from ..workspace.text import Text

CONTEXT = 3
MAX_LINES = 20_000
"""Files with more lines are shown as replaced where they differ, since comparing them could take minutes."""


def show(change: Change, context: int = CONTEXT) -> str:
    """A unified diff with ``a/`` and ``b/`` names; empty if nothing changed.

    Line endings and encodings that differ are named after the lines, as ``git`` does with a missing newline.
    """
    before, after = change.before or Text(), change.after or Text()
    old, new = _marked(before), _marked(after)
    old_name = f"a/{change.path}" if change.before is not None else "/dev/null"
    new_name = f"b/{change.path}" if change.after is not None else "/dev/null"
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    if len(old) + len(new) - 2 * (head + tail) > MAX_LINES:
        removed, added = old[head : len(old) - tail], new[head : len(new) - tail]
        body = [f"@@ -{head + 1},{len(removed)} +{head + 1},{len(added)} @@\n"]
        lines = [
            f"--- {old_name}\n",
            f"+++ {new_name}\n",
            *body,
            *_signed("-", removed),
            *_signed("+", added),
        ]
    else:
        lines = list(unified_diff(old, new, old_name, new_name, n=context))
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines
    )


def counts(change: Change) -> tuple[int, int]:
    """Lines added and removed."""
    lines = show(change, 0).split("\n")[2:]
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _marked(text: Text) -> list[str]:
    """The lines with their endings, odd ones made visible."""
    usual = text.newline
    marks = {"": "", usual: "\n", "\n": "␊\n", "\r\n": "␍␊\n", "\r": "␍\n"} | {usual: "\n"}
    return [line + marks[end] for line, end in zip(text.lines, text.ends, strict=True)]


def _signed(sign: str, lines: list[str]) -> list[str]:
    return [sign + line for line in lines]


def _common(a: list[str], b: list[str]) -> int:
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter)
