"""How a turn ends: gathered while it runs, told as its last event."""

from __future__ import annotations

import time

from .checks.detect import TESTS
from .events import Finished, Reason
from .run import Run
from .undoable import Undoable
from .verify import Outcome


class Ending:
    """What is known of how a turn ends, gathered while it does."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.undoable: Undoable | None = None
        self.run: Run | None = None
        self.outcome: Outcome | None = None
        self._reason: Reason = "done"
        self._why = ""

    def stop(self, reason: Reason, why: str) -> None:
        """It did not end by itself."""
        self._reason, self._why = reason, why

    def event(self) -> Finished:
        """The turn's last event."""
        changed = self.undoable.changed if self.undoable is not None else ()
        outcome = self.outcome or Outcome("", None)
        verified, why = outcome.verified, self._why or outcome.why
        if self.outcome is None and changed:
            verified = False
        if verified and (tests := [path for path in changed if TESTS.search(path)]):
            verified, why = False, f"the checks pass, but tests were written or changed: {', '.join(tests)}"
        return Finished(
            self._reason,
            outcome.summary,
            why,
            verified,
            changed,
            self.run.progress.steps if self.run is not None else 0,
            self.run.progress.output_tokens if self.run is not None else 0,
            round(time.monotonic() - self.began, 3),
        )
