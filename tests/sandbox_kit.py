"""For tests of commands: the levels of confinement that work here, and a project beside things of others."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ultra_sdk.agent.sandbox import levels
from ultra_sdk.agent.sandbox.policy import Level, Policy
from ultra_sdk.agent.sandbox.run import Outcome, run

LEVELS = levels.available()
CONFINED: list[Level] = [level for level in LEVELS if level != "advisory"]
"""Empty where nothing works: then only the tests of what is said and refused there can run."""


@dataclass
class Site:
    """A project, its private folder, and a folder of somebody else's."""

    root: Path
    tmp: Path
    outside: Path

    @classmethod
    def make(cls, folder: Path) -> Site:
        site = cls(folder / "project", folder / "tmp", folder / "outside")
        for path in (site.root, site.tmp, site.outside):
            path.mkdir()
        (site.outside / "secret").write_text("THE-SECRET\n")
        return site

    def policy(self, **changes: Any) -> Policy:
        return Policy(**({"root": self.root, "tmp": self.tmp, "seconds": 20.0} | changes))

    def run(self, command: str, level: Level, env: dict[str, str] | None = None, **changes: Any) -> Outcome:
        """Run a command with ``$OUT`` and ``$OUTSIDE`` as the folder outside."""
        env = {**os.environ, "OUT": str(self.outside), **(env or {})}
        return asyncio.run(run(command, self.policy(**changes), level=level, env=env))


def running(mark: str) -> list[int]:
    """The processes that have ``mark`` in their command line."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and mark.encode() in Path("/proc", name, "cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return [process for process in found if process != os.getpid()]


def gone(mark: str, seconds: float = 20.0) -> bool:
    """Wait until no process has ``mark`` in its command line; False if that does not happen."""
    end = time.monotonic() + seconds
    while running(mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
