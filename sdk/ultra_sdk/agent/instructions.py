"""AGENTS.md files: what a project tells every agent. The nearest one wins, so it is shown last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from .errors import AgentError
from .workspace.root import Root
from .workspace.text import Text, Undecodable

NAME = "AGENTS.md"
MAX_BYTES = 1 << 20
MAX_CHARS = 6000


@dataclass(frozen=True, slots=True)
class Instructions:
    """One file, as far as it is shown."""

    path: str
    text: str
    chars: int
    """Of the whole file."""

    @property
    def cut(self) -> bool:
        """Whether it was too long."""
        return self.chars > len(self.text)

    def told(self) -> str:
        """What a model reads."""
        more = f"\n[{self.chars - len(self.text):,} more characters: read {self.path}]" if self.cut else ""
        return f"Instructions of {self.path}:\n{self.text.strip()}{more}"


class InstructionFiles:
    """The files of one project, each loaded once, when something below it is first looked at.

    found = InstructionFiles(Root(project))
    found.at_start()                 # that of the project itself
    found.below("src/app/main.py")   # those of src and src/app, outer ones first
    """

    def __init__(self, root: Root, max_chars: int = MAX_CHARS) -> None:
        self._root = root
        self._max_chars = max_chars
        self._seen: set[str] = set()

    def at_start(self) -> list[Instructions]:
        """The project's own."""
        return self._load([NAME])

    def below(self, path: str) -> list[Instructions]:
        """Those of the folders that hold ``path`` (or are it), unless they were loaded before."""
        folders = [*reversed(PurePosixPath(path).parents), PurePosixPath(path)]
        names = [str(folder / NAME) for folder in folders if str(folder) != "."]
        return self._load([NAME, *names])

    def forget(self) -> None:
        """Load all of them again when they are next due."""
        self._seen.clear()

    def _load(self, names: list[str]) -> list[Instructions]:
        found = []
        for name in names:
            if name in self._seen:
                continue
            text = read_text(self._root, name)
            if text is None:
                continue
            self._seen.add(name)
            if text.strip():
                found.append(Instructions(name, text[: self._max_chars], len(text)))
        return found


def read_text(root: Root, name: str) -> str | None:
    """A file of the project without its byte order mark; None if it is not there or is no text."""
    try:
        return Text.decode(root.read(root.locate(name), MAX_BYTES)[0]).content.removeprefix("\ufeff")
    except (AgentError, Undecodable):
        return None
