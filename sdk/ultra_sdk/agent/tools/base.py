"""What a tool is, what it is given, and what it answers."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from ..checks.detect import Check
from ..permissions import Action, Mode
from ..sandbox import levels
from ..sandbox.policy import Level, Policy, private
from ..workspace.files import Workspace


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parameters of a tool. A field's description is what a model reads."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a call came to. ``text`` is for the model; the fields of a subclass are for programs."""

    text: str
    ok: bool = True


@dataclass(slots=True)
class Limits:
    """How much a tool tells the model; the defaults are for contexts of 8 to 32 thousand tokens."""

    output_chars: int = 4000
    read_lines: int = 400
    read_chars: int = 16_000
    line_chars: int = 2000
    matches: int = 100
    seconds: float = 120.0
    max_seconds: float = 600.0


@dataclass(slots=True)
class Context:
    """Where tools work.

    ``scratch`` is a private folder: the TMPDIR of commands, and where long outputs are kept. Give it to the
    `Workspace` too, so that they can be read.
    """

    workspace: Workspace
    scratch: Path
    mode: Mode = "ask"
    level: Level = field(default_factory=levels.strongest)
    network: bool = False
    checks: tuple[Check, ...] = ()
    """The project's checks as the user named them; found by `detect` if there are none."""
    limits: Limits = field(default_factory=Limits)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def policy(self, seconds: float) -> Policy:
        """The bounds of a command. Version control is write-protected where the level can do it."""
        root = self.workspace.root.path
        return Policy(
            root,
            self.scratch,
            write=self.mode != "read-only",
            network=self.network,
            hidden=private() if self.level != "advisory" else (),
            read_only=(root / ".git",) if self.level in ("bubblewrap", "seatbelt") else (),
            seconds=min(seconds, self.limits.max_seconds),
        )

    def output_path(self) -> Path:
        """A new file for a long output."""
        return self.scratch / f"output-{next(self._numbers)}.txt"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the registry knows it."""

    name: str
    description: str
    params: type[Params]
    action: Action
    run: Callable[[Context, Any], Awaitable[Result]]
    raw: str | None = None
    """The parameter that a model writes as plain text: code does not survive being a JSON string."""
