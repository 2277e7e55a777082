"""What an examination finds: facts, each good, poor or fatal, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Verdict(Enum):
    """How a fact bears on running the engine."""

    GOOD = "ok"
    POOR = "warning"
    """It runs, but slower, or without something."""
    FATAL = "error"
    """It does not run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: ``label``, what is so, ``advice`` where there is something to do; ``data`` is for scripts."""

    label: str
    words: str
    verdict: Verdict = Verdict.GOOD
    advice: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        found = {"label": self.label, "words": self.words, "verdict": self.verdict.value}
        return found | {"advice": self.advice} | self.data
