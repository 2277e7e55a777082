"""Adapter for the public trial of the order of permission questions: the real app, key by key."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from textual.pilot import Pilot
from tui_kit import agent_in, chatting
from ultra_sdk.agent import Approval, PermissionAsked
from ultra_sdk.testing import FakeEngine
from ultra_tui.agent.pane import AgentPane

LIVING: list[asyncio.Task[None]] = []


class App:
    """The app with questions that a test asks."""

    def __init__(self, pane: AgentPane, pilot: Pilot[None]) -> None:
        self._pane = pane
        self._pilot = pilot
        self._asked: dict[str, asyncio.Task[Approval]] = {}

    async def ask(self, command: str) -> None:
        request = PermissionAsked(command, "bash", "shell", command, f"run {command}?")
        self._asked[command] = asyncio.create_task(self._pane.session.approvals.ask(request))
        await self._pilot.pause()

    async def wait(self, seconds: float) -> None:
        await self._pilot.pause(seconds)

    async def type(self, keys: str) -> None:
        await self._pilot.press(*("escape" if key == "\x1b" else key for key in keys))

    def shown(self) -> str:
        return str(self._pane.card.render()) if self._pane.card.display else ""

    def decision(self, command: str) -> str | None:
        task = self._asked[command]
        return task.result() if task.done() else None


async def app() -> App:
    """The app in a task of its own, which the loop's end takes down."""
    begun: asyncio.Future[App] = asyncio.get_running_loop().create_future()
    LIVING.append(asyncio.create_task(_live(begun)))
    return await begun


async def _live(begun: asyncio.Future[App]) -> None:
    with FakeEngine() as fake, tempfile.TemporaryDirectory() as folder:
        async with chatting(fake, agent=agent_in(Path(folder), fake)) as (running, pilot):
            assert running.agent is not None
            begun.set_result(App(running.agent, pilot))
            await asyncio.Event().wait()
