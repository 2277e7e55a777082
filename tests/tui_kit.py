"""Helpers of the tests of the terminal app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.strip import Strip
from ultra_sdk import connect
from ultra_sdk.agent import Mode
from ultra_sdk.testing import FakeEngine
from ultra_tui.agent.dial import AgentDial
from ultra_tui.app import ChatApp
from ultra_tui.link import EngineLink
from ultra_tui.palette import Palette, make_palette
from ultra_tui.text import Line
from ultra_tui.themes import DARK
from ultra_tui.transcript.view import Transcript


def palette() -> Palette:
    """The palette of the dark theme."""
    return make_palette({**App().get_css_variables(), **DARK.to_color_system().generate()})


def plain(lines: list[Line]) -> list[str]:
    """Rows as plain text without the spaces at their ends."""
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def strips_of(transcript: Transcript) -> list[Strip]:
    """All rows of a transcript, on screen or not."""
    return [strip for block in transcript.record.blocks for strip in block.kept]


def shown(transcript: Transcript) -> str:
    """All rows of a transcript as plain text."""
    return "\n".join(strip.text.rstrip() for strip in strips_of(transcript))


def link_to(fake: FakeEngine) -> EngineLink:
    """A link to a scripted engine."""
    return EngineLink(
        lambda _, status: connect(unix=fake.unix, token=fake.token, on_status=status, start=False)
    )


def agent_in(root: Path, fake: FakeEngine, mode: Mode = "ask", resume: str | None = None) -> AgentDial:
    """What an app needs to have an agent in a project, its data beside that."""
    return AgentDial(lambda _, status: connect(unix=fake.unix), None, root, mode, resume=resume)


@asynccontextmanager
async def chatting(
    fake: FakeEngine,
    size: tuple[int, int] = (80, 24),
    options: Mapping[str, Any] | None = None,
    agent: AgentDial | None = None,
) -> AsyncIterator[tuple[ChatApp, Pilot[None]]]:
    """The app, connected to a scripted engine; with ``agent`` it is the coding agent."""
    app = ChatApp(link_to(fake), options, agent=agent)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.session.meter.state == "ready")
        yield app, pilot


async def until(pilot: Pilot[Any], condition: Callable[[], object], seconds: float = 20) -> None:
    """Let the app run until something is so; fails the test when it takes too long."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await pilot.pause(0.02)
    raise AssertionError("it did not happen in time")


async def enter(app: ChatApp, pilot: Pilot[None], text: str) -> None:
    """Put a text into the prompt at once and press Enter."""
    app.prompt.paste(text)
    await pilot.press("enter")


async def ask(app: ChatApp, pilot: Pilot[None], question: str) -> None:
    """Type and send a question and wait for the end of the answer."""
    await enter(app, pilot, question)
    await until(pilot, lambda: not app.session.busy)
    await until(pilot, lambda: app.clock is not None and not app.clock.running)
