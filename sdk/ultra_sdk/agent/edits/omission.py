"""Placeholders that stand for code which the model did not write out."""

from __future__ import annotations

import re

from ..errors import Omission

COMMENT = re.compile(r"^\s*(?:#|//|/\*|\*|<!--|--|;|%|\{/\*|\"\"\"|''')\s*(.*?)\s*(?:\*/\}?|-->)?\s*$")
DOTS = re.compile(r"\.\.\.|…|\[\.\.\.\]")
PHRASE = re.compile(
    r"\b(?:rest of|remaining|remainder|existing|previous|original|other|same|unchanged|as before|omitted|"
    r"stays? the same|remains?|unmodified|continue[sd]?)\b",
    re.IGNORECASE,
)
SUBJECT = re.compile(
    r"\b(?:code|file|function|functions|method|methods|class|classes|implementation|imports?|content|contents|"
    r"logic|lines?|body|tests?|definitions?|here|above|below|everything)\b",
    re.IGNORECASE,
)
BARE = re.compile(r"^\s*(?:#|//|/\*|<!--|--|;)?\s*(?:\.\.\.|…)\s*(?:\*/|-->)?\s*$")

DOTTED = (".py", ".pyi", ".md", ".rst", ".txt", ".yaml", ".yml")


def check_omissions(old: str, new: str, path: str = "the file") -> None:
    """Raises `Omission` if ``new`` has a placeholder line that is not in ``old``.

    A line of dots alone counts unless the file is of a kind in which it has a meaning.
    """
    known = {line.strip() for line in old.split("\n")}
    for number, line in enumerate(new.split("\n"), 1):
        if line.strip() not in known and is_placeholder(line, dots=path.lower().endswith(DOTTED)):
            raise Omission(
                f"line {number} of the new text of {path} leaves code out ({line.strip()[:60]!r}); "
                "write every line, or use an edit of the part that changes"
            )


def is_placeholder(line: str, *, dots: bool = False) -> bool:
    """Whether a line says that something was left out. ``dots``: ``...`` alone may stand for itself.

    is_placeholder("# ... rest of the code unchanged ...")   # True
    is_placeholder("# the rest of the day is free")          # False
    """
    if BARE.match(line):
        return not (dots and line.strip() in ("...", "…"))
    comment = COMMENT.match(line)
    if comment is None:
        return False
    said = comment[1]
    if DOTS.search(said):
        return bool(
            PHRASE.search(said) or re.fullmatch(r"\W*(?:\w+\W+){0,2}\w*\W*", said) and SUBJECT.search(said)
        )
    words = said.split()
    unchanged = re.search(
        r"\b(?:unchanged|stays? the same|remains? the same|omitted|as before)\b", said, re.I
    )
    return len(words) <= 9 and bool(unchanged and SUBJECT.search(said))
