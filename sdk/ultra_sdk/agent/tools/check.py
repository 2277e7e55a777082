"""The tool `check`: the project's own checks, and of their output only what failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ..checks.detect import detect
from ..checks.failures import Failure
from ..checks.report import CheckReport, run_check
from ..errors import ToolError
from ..truncate import shorten
from .base import Context, Params, Result, Tool

SHOWN = 5
"""How many failures a model is told of at once."""


class CheckParams(Params, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="one check, such as pytest; all of them by default")] = ""


@dataclass(frozen=True, slots=True)
class CheckResult(Result):
    """One report for each check that ran."""

    reports: tuple[CheckReport, ...] = ()

    @property
    def found(self) -> bool:
        """Whether there was anything to check: a run of no tests shows nothing."""
        return any(not report.empty for report in self.reports)


async def run(context: Context, params: CheckParams) -> Result:
    """Raises `ToolError`, `SandboxError`."""
    checks = context.checks or tuple(detect(context.workspace.root))
    wanted = [check for check in checks if params.name in ("", check.name)]
    if not wanted:
        known = ", ".join(check.name for check in checks) or "none was found in this project"
        raise ToolError(f"there is no check {params.name}; checks: {known}".replace("check ;", "check;"))
    policy = context.policy(context.limits.max_seconds)
    reports = [await run_check(each, policy, context.level, context.output_path()) for each in wanted]
    text = "\n".join(_told(report, context.limits.output_chars // len(reports)) for report in reports)
    return CheckResult(text, all(report.passed or report.empty for report in reports), tuple(reports))


def _told(report: CheckReport, limit: int) -> str:
    name = report.check.name
    if report.passed:
        return f"{name}: passed"
    if report.empty:
        return f"{name}: {report.why}"
    if not report.failures:
        return f"{name}: failed ({report.why})\n{shorten(report.output, limit, str(report.path or ''))}"
    shown = [_failure(failure) for failure in report.failures[:SHOWN]]
    more = len(report.failures) - len(shown)
    shown += [f"[{more} more failures]"] if more else []
    return shorten(
        f"{name}: {len(report.failures)} failed\n" + "\n".join(shown), limit, str(report.path or "")
    )


def _failure(failure: Failure) -> str:
    details = "\n".join(f"    {line}" for line in failure.details)
    return f"- {failure.name}: {failure.message}" + (f"\n{details}" if details else "")


TOOL = Tool("check", "Run the project's tests and linters; tells what fails.", CheckParams, "shell", run)
