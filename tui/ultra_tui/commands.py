"""Slash commands: a name runs only when it is typed in full; everything else is text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os.path import commonprefix

_WORD = re.compile(r"/[A-Za-z][\w-]*\s*")


@dataclass(frozen=True)
class Command:
    """A thing to do. ``run`` gets what follows the name, which is empty unless ``argument`` names it."""

    name: str
    help: str
    run: Callable[[str], None]
    argument: str = ""

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"/{self.name} [{self.argument}]" if self.argument else f"/{self.name}"


@dataclass(frozen=True)
class Call:
    """Run this command with this argument."""

    command: Command
    argument: str


@dataclass(frozen=True)
class Unknown:
    """One word that looks like a command but is none: worth a question, not a message to the model."""

    name: str


class Registry:
    """The commands by name."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self.commands = {command.name: command for command in commands}

    def parse(self, text: str) -> Call | Unknown | None:
        """What Enter means for this text; None: it is a message."""
        if not text.startswith("/") or "\n" in text.rstrip():
            return None
        word, _, argument = text.rstrip().partition(" ")
        command = self.commands.get(word[1:])
        if command is not None and (command.argument or not argument.strip()):
            return Call(command, argument.strip())
        return Unknown(word) if _WORD.fullmatch(text) else None

    def matches(self, text: str) -> list[Command]:
        """The commands whose names begin with the one word typed so far."""
        if not text.startswith("/") or " " in text or "\n" in text:
            return []
        return [self.commands[name] for name in sorted(self.commands) if name.startswith(text[1:])]

    def complete(self, text: str) -> str:
        """The text as far as it is unambiguous; a whole name that takes an argument gets a space."""
        matches = self.matches(text)
        if not matches:
            return text
        exact = self.commands.get(text[1:])
        if exact is not None:
            return f"{text} " if exact.argument else text
        name = commonprefix([command.name for command in matches])
        whole = self.commands.get(name) if len(matches) == 1 else None
        return f"/{name} " if whole is not None and whole.argument else f"/{name}"
