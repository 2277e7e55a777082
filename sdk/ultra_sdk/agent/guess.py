"""Which file a fenced block without a name is: small models write the path in the prose around it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from .parsing.fences import Fence

SUFFIXES = {
    "python": (".py", ".pyi"),
    "py": (".py",),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "js": (".js", ".mjs", ".cjs", ".jsx"),
    "typescript": (".ts", ".tsx"),
    "ts": (".ts", ".tsx"),
    "json": (".json",),
    "toml": (".toml",),
    "yaml": (".yaml", ".yml"),
    "html": (".html",),
    "css": (".css",),
    "c": (".c", ".h"),
    "cpp": (".cpp", ".cc", ".hpp", ".h"),
    "go": (".go",),
    "rust": (".rs",),
    "java": (".java",),
    "ruby": (".rb",),
    "sql": (".sql",),
    "bash": (".sh", ".bash"),
    "sh": (".sh",),
}
WORD = re.compile(r"[\w./@+-]+")
PATH = re.compile(r"[\w./@+-]*\w\.\w{1,8}")
MAX_PATH = 300
COMMENT = re.compile(r"(?:#|//|--|/\*|<!--)\s*(?:file(?:name)?:?\s*)?([\w./@+-]+\.\w{1,8})\s*(?:\*/|-->)?\s*")
LINES_ABOVE = 3
ENOUGH = 0.5
"""The part of an existing file's lines that a block must have to be taken for the whole file."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What is known when a block has no name.

    ``named`` are the paths that the task and the reader of files have brought up, the latest last; ``peek``
    gives the text of an existing file.
    """

    named: list[str]
    peek: Callable[[str], str | None]

    def of(self, fence: Fence, lines: list[str]) -> tuple[str, str] | None:
        """The path and content of the file that ``fence`` (in the answer's ``lines``) is; None if it is none.

        A file that exists is only meant by what could be it: all its definitions, some of them and nothing
        else, or half of its lines. A quotation is no edit.
        """
        suffixes = SUFFIXES.get(fence.language, ())
        content = fence.content
        first, _, rest = content.partition("\n")
        comment = COMMENT.fullmatch(first.strip())
        path = comment[1] if comment and comment[1].endswith(suffixes or ("",)) else None
        if path is not None and not self._begins(path, first):
            content = rest
        if path is None and suffixes:
            path = self._above(lines, fence.start, suffixes) or self._only(suffixes)
        if path is None:
            return None
        old = self.peek(path)
        return (path, content) if old is None or could_be(old, content, path) else None

    def _begins(self, path: str, first: str) -> bool:
        old = self.peek(path)
        return old is not None and old.partition("\n")[0].strip() == first.strip()

    def _above(self, lines: list[str], start: int, suffixes: tuple[str, ...]) -> str | None:
        """The one path that the prose just above brings up."""
        above = [line for line in lines[max(start - LINES_ABOVE, 0) : start] if line.strip()]
        for line in reversed(above):
            found = {word for word in paths_in(line) if word.endswith(suffixes)}
            known = {word for word in found if self._known(word)} or found
            if found:
                return known.pop() if len(known) == 1 else None
        return None

    def _only(self, suffixes: tuple[str, ...]) -> str | None:
        fitting = [path for path in self.named if path.endswith(suffixes)]
        return fitting[0] if len(set(fitting)) == 1 else None

    def _known(self, path: str) -> bool:
        return path in self.named or self.peek(path) is not None


def could_be(old: str, new: str, path: str) -> bool:
    """Whether ``new`` can be meant as the file of which ``old`` is the text."""
    if not old.strip():
        return True
    if PurePosixPath(path).suffix in (".py", ".pyi"):
        before, after = top_names(old), top_names(new)
        if before and after:
            return before <= after or only_definitions(new)
    known = {line.strip() for line in new.split("\n")}
    lines = [line.strip() for line in old.split("\n") if line.strip()]
    return sum(line in known for line in lines) >= ENOUGH * len(lines)


def top_names(source: str) -> set[str]:
    """The functions and classes that a Python file defines at its top; none if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def only_definitions(source: str) -> bool:
    """Whether a Python text has functions, classes and imports at its top, and nothing else."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return bool(tree.body) and all(isinstance(node, kinds) for node in tree.body)


def paths_in(text: str) -> list[str]:
    """What looks like a path in a text, in order."""
    words = (word.rstrip(".").removeprefix("./") for word in WORD.findall(text) if len(word) <= MAX_PATH)
    return list(dict.fromkeys(word for word in words if PATH.fullmatch(word)))
