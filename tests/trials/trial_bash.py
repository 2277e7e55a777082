"""Adapter for the public background-pipe trial: commands as the bash tool runs them."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ultra_sdk.agent.sandbox.policy import Policy
from ultra_sdk.agent.sandbox.run import run


def bash(command: str, cwd: str, timeout: float) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as tmp:
        outcome = asyncio.run(run(command, Policy(Path(cwd), Path(tmp), seconds=timeout)))
    return outcome.exit_code, outcome.output
