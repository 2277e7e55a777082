"""What shows that a task is done: the project's checks, run before it, after each change, and at its end."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .acting import Acting
from .bounds import Progress
from .memory import Memory
from .tools.check import CheckResult

ABOUT_CHECKS = re.compile(
    r"\b(?:tests?|pytest|fail\w*|passes|check\w*|lint\w*|mypy|broken|bug\w*|fix\w*)\b", re.I
)
"""Tasks before which it is worth knowing what the checks say."""
ADVICE = "If the task is finished, end with a line DONE: and what you did. Otherwise go on."
UNTRIED = "Nothing shows yet that it works. Run it with one command, and mend what is wrong."
NO_CHECK = "no check of the project could be run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the work ended by itself: the model's last words, and whether the checks pass (None: no change)."""

    summary: str
    verified: bool | None
    why: str = ""


class Verifier:
    """Runs the checks of one turn, and judges by them."""

    def __init__(self, acting: Acting, memory: Memory, progress: Progress) -> None:
        self._acting = acting
        self._memory = memory
        self._progress = progress
        self._last: CheckResult | None = None
        self._objected = ""
        self._nudged = False
        self._told = False  # in this step
        self.refused = False
        """Whether an edit was tried and none was made since."""

    async def before(self, task: str) -> str:
        """Run the checks if the task is about them; what they say."""
        text = await self._ran() if ABOUT_CHECKS.search(task) else ""
        self._told = False
        return text

    async def after(self, edited: bool) -> None:
        """Run the checks if files changed since they ran, and tell the model."""
        self._told = False
        if self._acting.dirty:
            text = await self._ran()
            if text or edited:
                self._memory.tell(text or ADVICE)

    def judged(self, summary: str) -> Outcome | None:
        """The end, as the model claims it; None if something speaks against it, which it is told once."""
        last = self._last
        if last is not None and not last.ok and last.found:
            if last.text != self._objected:
                self._objected = last.text
                self._progress.checked(False)
                said = "" if self._told else f"\n{last.text}"
                self._memory.tell(f"The project's checks still fail. Change the code.{said}")
                return None
            verified = False if self._acting.changed or self.refused else None
            return Outcome(summary, verified, f"the checks fail: {last.text.splitlines()[0]}")
        if not self._acting.changed:
            return Outcome(
                summary, False if self.refused else None, "no edit was made" if self.refused else ""
            )
        if last is not None and last.found:
            return Outcome(summary, True)
        if not self._acting.tried and not self._nudged and self._acting.can_run():
            self._nudged = True
            self._memory.tell(UNTRIED)
            return None
        return Outcome(summary, False, NO_CHECK)

    async def _ran(self) -> str:
        """Run the checks; what the model is told of them, if there are any."""
        result = await self._acting.check(self._memory.next_id())
        if result is None or not result.found:
            return ""
        self._last, self._told = result, True
        advice = f"\n{ADVICE}" if result.ok and self._acting.changed else ""
        return f"The project's checks:\n{result.text}{advice}"
