"""Files that a person names with ``@`` in a prompt: what may be meant while typing, and what was meant.

A mention begins at the start of a word, so addresses such as ``user@example.org`` are none. A path with
spaces stands in double quotes, or with a backslash before each space.
"""

from __future__ import annotations

import re
from itertools import islice

from .errors import AgentError
from .workspace.root import Root
from .workspace.scan import scan

START = re.compile(r"(?:(?<=[\s(\[{<>'\"`,;:=|])|\A)@")
QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
PLAIN = re.compile(r"(?:[^\s\\\"]|\\.)+")
SAFE = re.compile(r"[^\s\"'\\`]+")
CLOSING = ".,;:!?)]}>'`"
MAX_OFFERED = 50
MAX_PATHS = 50_000
"""Beyond, names are still understood, but not offered."""


class Mentions:
    """The mentions of one project.

    mentions = Mentions(Root(project))
    mentions.complete("look at @mai")       # ["main.py"]
    mentions.attached('read @"my file.py"') # ["my file.py"]

    The list of files is read once; `refresh` reads it again.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._paths: list[str] = []
        self.refresh()

    def refresh(self) -> None:
        """Look at the project's files again."""
        self._paths = [
            found.path + ("/" if found.kind == "folder" else "")
            for found in islice(scan(self._root), MAX_PATHS)
            if found.kind in ("file", "folder")
        ]

    def complete(self, before: str) -> list[str]:
        """What may stand after the ``@`` in which the text before the cursor ends, the likeliest first.

        Each is as it has to be inserted, quoted if need be. Empty if the cursor is in no mention.
        """
        for start in reversed(list(START.finditer(before))):
            typed = before[start.end() :]
            if typed.startswith('"'):
                inner = typed[1:]
                if "\n" not in inner and not re.search(r'(?<!\\)"', inner):
                    return [quoted(path) for path in self._ranked(_unescaped(inner))]
                return []
            if re.fullmatch(r"(?:[^\s\\]|\\.|\\\Z)*", typed):
                return [quoted(path) for path in self._ranked(_unescaped(typed))]
            # With plain spaces it is one only as long as a path goes on like this.
            if "\n" not in typed and (going_on := self._beginning(typed)):
                return [quoted(path) for path in going_on]
        return []

    def attached(self, prompt: str) -> list[str]:
        """The paths that a prompt names and that exist, in order, each once."""
        found: list[str] = []
        at = 0
        while (start := START.search(prompt, at)) is not None:
            at = start.end()
            named = QUOTED.match(prompt, at)
            plain = PLAIN.match(prompt, at)
            word = named[1] if named else plain[0] if plain else ""
            path = self._existing(word, exact=named is not None)
            if path is not None:
                at += len(named[0]) if named else len(word)
                if path not in found:
                    found.append(path)
        return found

    def _existing(self, word: str, *, exact: bool) -> str | None:
        """The path that a word names; a comma or bracket after it does not belong to it."""
        while word:
            try:
                path = self._root.locate(_unescaped(word))
                if self._root.lstat(path) is not None:
                    return path
            except AgentError:
                pass
            if exact or word[-1] not in CLOSING:
                return None
            word = word[:-1]
        return None

    def _beginning(self, typed: str) -> list[str]:
        low = _unescaped(typed).casefold()
        return [path for path in self._paths if path.casefold().startswith(low)][:MAX_OFFERED]

    def _ranked(self, typed: str) -> list[str]:
        low = typed.casefold().removeprefix("./")
        ranked = []
        for path in self._paths:
            rank = _rank(low, path.casefold())
            if rank is not None:
                ranked.append((rank, path.rstrip("/").count("/"), path))
        return [path for *_, path in sorted(ranked)[:MAX_OFFERED]]


def quoted(path: str) -> str:
    """A path as it is written after the ``@``."""
    if SAFE.fullmatch(path) and path[-1] not in CLOSING:
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _rank(typed: str, path: str) -> int | None:
    """How well a path fits, 0 the best; None if it does not."""
    if path.startswith(typed):
        return 0
    name = path.rstrip("/").rpartition("/")[2]
    if name.startswith(typed):
        return 1
    if f"/{typed}" in path:
        return 2
    if typed in path:
        return 3
    rest = iter(path)
    return 4 if all(char in rest for char in typed) else None
