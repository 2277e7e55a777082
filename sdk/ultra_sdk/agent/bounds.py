"""How far one turn may go, and the counters that say how far it went."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REPEATED_CHARS = 50
MAX_REPEATS = 16


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one turn. Waiting for a person's word does not count as time."""

    steps: int = 40
    output_tokens: int = 60_000
    seconds: float = 1800.0
    answer_tokens: int = 4096
    """Of one answer; a quarter of the context if that is less."""
    identical: int = 3
    """Times the same call may have the same result."""
    bad_answers: int = 3
    """Answers in a row that cannot be understood."""
    failed_edits: int = 4
    """Refused edits in a row."""
    failed_checks: int = 4
    """Times the checks may fail after the model said that it is done."""


class Exhausted(Exception):
    """A bound was reached; the message says which, for people."""


@dataclass(slots=True)
class Progress:
    """Counts a turn against its bounds. Each method raises `Exhausted` when one is reached."""

    bounds: Bounds
    steps: int = 0
    output_tokens: int = 0
    bad_answers: int = 0
    failed_edits: int = 0
    failed_checks: int = 0
    _seen: Counter[str] = field(default_factory=Counter)

    def step(self) -> int:
        """Another question to the model; its number."""
        if self.steps >= self.bounds.steps:
            raise Exhausted(f"it took {self.steps} steps, the limit")
        if self.output_tokens >= self.bounds.output_tokens:
            raise Exhausted(f"the model wrote {self.output_tokens:,} tokens, the limit")
        self.steps += 1
        return self.steps

    def answered(self, understood: bool) -> None:
        """An answer was read."""
        self.bad_answers = 0 if understood else self.bad_answers + 1
        if self.bad_answers >= self.bounds.bad_answers:
            raise Exhausted(f"{self.bad_answers} answers in a row could not be understood")

    def edited(self, ok: bool) -> None:
        """An edit was applied or refused."""
        self.failed_edits = 0 if ok else self.failed_edits + 1
        if self.failed_edits >= self.bounds.failed_edits:
            raise Exhausted(f"{self.failed_edits} edits in a row could not be applied")

    def checked(self, passed: bool) -> None:
        """The checks ran because the model said that it is done."""
        self.failed_checks += not passed
        if self.failed_checks >= self.bounds.failed_checks:
            raise Exhausted(f"the checks failed {self.failed_checks} times")

    def called(self, tool: str, arguments: Mapping[str, Any] | str, result: str) -> int:
        """How often this call has had this result."""
        said = json.dumps([tool, arguments, result], sort_keys=True, default=str)
        key = hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()
        self._seen[key] += 1
        if self._seen[key] >= self.bounds.identical:
            raise Exhausted(f"{tool} was called {self._seen[key]} times with the same result")
        return self._seen[key]

    def changed(self) -> None:
        """Files are not what they were: the same call may well be made again."""
        self._seen.clear()


def circles(text: str) -> bool:
    """Whether a text has begun to repeat itself at its end without anything new.

    circles("and so on " * 100)   # True
    """
    tail = text[-REPEATED_CHARS * MAX_REPEATS * 4 :]
    if len(tail) < REPEATED_CHARS * MAX_REPEATS:
        return False
    before = tail.rfind(tail[-REPEATED_CHARS:], 0, len(tail) - 1)
    period = len(tail) - REPEATED_CHARS - before
    span = max(period * MAX_REPEATS, REPEATED_CHARS * MAX_REPEATS)
    if before < 0 or span > len(tail):
        return False
    end = tail[-span:]
    return end[period:] == end[:-period] and len(set(end)) > 1
