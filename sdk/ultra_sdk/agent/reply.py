"""What an answer wants done, whichever protocol it was written in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ultra_sdk.protocol import ChatMessage

from .conversation import Entry
from .guess import Guess
from .parsing.calls import Call

STEP = re.compile(r"\s{0,3}(?:\d{1,2}[.)]|[-*] \[[ x]\])\s+(.*\S)")
MIN_STEPS = 2


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, read."""

    words: str
    calls: tuple[Call, ...] = ()
    problems: tuple[str, ...] = ()
    """What was meant as a call and is none, for the model as it stands."""
    done: str | None = None
    """The model's own words on what it did, if it says that it is finished."""
    thought: str = ""

    @property
    def plan(self) -> tuple[str, ...]:
        """The numbered or ticked list in its words, if it goes on to do something."""
        steps = tuple(found[1] for line in self.words.split("\n") if (found := STEP.fullmatch(line)))
        return steps if len(steps) >= MIN_STEPS and self.calls else ()


class Driver(Protocol):
    """One way to put a conversation to a model and to read what it answers."""

    def opening(self, project: str) -> list[ChatMessage]:
        """The fixed beginning of every prompt; ``project`` is what the project's files tell agents."""

    def messages(self, entries: Sequence[Entry]) -> list[ChatMessage]:
        """The conversation, as the model's template takes it."""

    def options(self) -> dict[str, Any]:
        """Further fields of the request."""

    def read(self, text: str, calls: Sequence[Call], guess: Guess) -> Reply:
        """Read an answer; ``calls`` are those that the server found in it."""

    def enough(self, text: str) -> bool:
        """Whether what has come is all that will be used, so that the rest need not be waited for."""

    def shown(self, path: str, content: str) -> str:
        """How a file is put into a prompt."""
