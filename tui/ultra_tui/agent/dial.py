"""What the command line says of the agent, and agents made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ultra_sdk import Client
from ultra_sdk.agent import Agent, Check, Mode, Sessions
from ultra_sdk.agent.gate import Approve
from ultra_sdk.agent.transcript import TranscriptError

from ultra_tui.link import Dial


@dataclass(frozen=True)
class AgentDial:
    """How agents are made. ``resume`` is None for a new session, empty for the last one, or its id."""

    dial: Dial
    model: str | None
    root: Path
    mode: Mode = "ask"
    checks: tuple[str, ...] = ()
    resume: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def fresh(self) -> AgentDial:
        """The same for a new session."""
        return replace(self, resume=None)

    def agent(self, engine: Client, approve: Approve | None) -> Agent:
        """An agent on an engine that has been reached. Raises `AgentError`."""
        return Agent(
            engine,
            self.root,
            mode=self.mode,
            approve=approve,
            session=self.session(),
            checks=[Check(command, command) for command in self.checks],
            options=self.options,
        )

    def session(self) -> str | None:
        """The session to go on with, if one is. Raises `TranscriptError` if there is none."""
        if self.resume is None or self.resume:
            return self.resume
        latest = Sessions(self.root).latest()
        if latest is None:
            raise TranscriptError(f"there is no session to resume in {self.root}")
        return latest
