"""Running one check."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..sandbox.policy import Level, Policy
from ..sandbox.run import run
from ..truncate import clean
from .detect import Check
from .failures import Failure, parse_failures

NO_TESTS = 5
"""pytest's code for a run that found no test."""
NONE_RAN = re.compile(r"^Ran 0 tests in ", re.MULTILINE)
"""What unittest says of one; before Python 3.12 it calls that a success."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check said."""

    check: Check
    passed: bool
    failures: tuple[Failure, ...]
    why: str
    """The exit code or the limit that was broken, in words."""
    output: str
    path: Path | None
    seconds: float
    empty: bool = False
    """Whether no test was found: nothing is wrong then, and nothing is shown to be right."""


async def run_check(check: Check, policy: Policy, level: Level, output: Path | None = None) -> CheckReport:
    """Run a check under a policy. Raises `SandboxError`."""
    outcome = await run(check.command, policy, level=level, output=output)
    said = clean(outcome.output)
    empty = check.kind == "pytest" and outcome.exit_code == NO_TESTS
    empty = empty or (check.kind == "unittest" and bool(NONE_RAN.search(said)))
    passed = outcome.exit_code == 0 and not empty
    why = f"exit code {outcome.exit_code}" if outcome.reason is None else f"{outcome.reason} limit"
    why = "no test was found" if empty else why
    failures = () if passed else tuple(parse_failures(check.kind, said))
    return CheckReport(check, passed, failures, why, said, outcome.path, outcome.seconds, empty)
