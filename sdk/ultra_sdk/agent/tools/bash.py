"""The tool `bash`: one shell command, confined, with nobody to answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from ..sandbox.run import Outcome
from ..sandbox.run import run as run_command
from ..truncate import shorten
from .base import Context, Params, Result, Tool

REASONS = {
    "timeout": "stopped: it took more than {seconds:g} s",
    "memory": "stopped: it needed too much memory",
    "pids": "stopped: it started too many processes",
}


class Bash(Params, frozen=True, kw_only=True):
    cmd: Annotated[str, Meta(description="command; it starts in the project's folder each time")]
    timeout: Annotated[float, Meta(description="seconds")] = 0


@dataclass(frozen=True, slots=True)
class BashResult(Result):
    """What became of the command."""

    outcome: Outcome | None = None


async def run(context: Context, params: Bash) -> Result:
    """Raises `SandboxError`."""
    seconds = params.timeout if params.timeout > 0 else context.limits.seconds
    policy = context.policy(seconds)
    outcome = await run_command(params.cmd, policy, level=context.level, output=context.output_path())
    said = shorten(outcome.output, context.limits.output_chars, str(outcome.path or ""))
    lines = [f"exit code {outcome.exit_code}"]
    if outcome.reason is not None:
        lines = [REASONS[outcome.reason].format(seconds=policy.seconds)]
    if outcome.left:
        lines.append(f"[{outcome.left} background processes were stopped when it ended]")
    if said.strip():
        lines.append(said)
    if outcome.path is not None and len(outcome.output) <= context.limits.output_chars:
        outcome.path.unlink(missing_ok=True)
    return BashResult("\n".join(lines), outcome.exit_code == 0, outcome)


TOOL = Tool("bash", "Run a shell command. No network, no input.", Bash, "shell", run, raw="cmd")
