"""What .gitignore leaves out, by git's rules: the last pattern that matches decides, nearest file first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .globs import compile_glob

ALWAYS = frozenset(
    ".git .hg .svn .jj node_modules __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache "
    ".hypothesis .gradle .DS_Store".split()
)
"""Names that are never part of a project's work, even where no .gitignore says so."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a .gitignore."""

    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


def parse(text: str) -> tuple[Rule, ...]:
    """The rules of a file, last first: the order in which they are asked."""
    found = [rule for line in text.split("\n") if (rule := _rule(line.removesuffix("\r"))) is not None]
    return tuple(reversed(found))


def decide(rules: tuple[Rule, ...], path: str, is_folder: bool) -> bool | None:
    """Whether ``path``, relative to the folder of the rules, is ignored; None if no rule speaks of it."""
    for rule in rules:
        if (is_folder or not rule.folders_only) and rule.regex.match(path):
            return not rule.negated
    return None


def _rule(line: str) -> Rule | None:
    if line.startswith("#"):
        return None
    line = re.sub(r"(?<!\\)((?:\\\\)*) +$", r"\1", line) if line.endswith(" ") else line
    negated = line.startswith("!")
    line = line.removeprefix("!") if negated else line
    folders_only = line.endswith("/")
    line = line[:-1] if folders_only else line
    if not line:
        return None
    pattern = line.removeprefix("/") if "/" in line else "**/" + line
    return Rule(compile_glob(pattern), negated, folders_only)


class Ignore:
    """The rules of one folder and of all above it, up to the root.

    rules = Ignore().within("", "*.log\\n!keep.log\\n")
    rules.ignores("a.log", False)   # True
    """

    def __init__(self, layers: tuple[tuple[str, tuple[Rule, ...]], ...] = ()) -> None:
        self._layers = layers

    def within(self, folder: str, text: str) -> Ignore:
        """The same with the .gitignore of ``folder`` (``""`` is the root) on top."""
        prefix = folder + "/" if folder else ""
        return Ignore(((prefix, parse(text)), *self._layers))

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Whether ``path`` is left out. Its folder is not asked: an ignored one is not entered."""
        if path.rpartition("/")[2] in ALWAYS:
            return True
        for prefix, rules in self._layers:
            verdict = decide(rules, path.removeprefix(prefix), is_folder)
            if verdict is not None:
                return verdict
        return False
