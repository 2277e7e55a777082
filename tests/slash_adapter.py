"""The slash commands of the real app, driven key by key: `registry` gives the names and a `press`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from textual.pilot import Pilot
from tui_kit import chatting
from ultra_sdk.testing import FakeEngine
from ultra_tui.app import ChatApp

Outcome = tuple[str | None, str]
"""The command that ran, if one did, and the text left in the prompt."""


def registry() -> tuple[set[str], Callable[[str, str], Outcome]]:
    """The names of all commands, and a function that types a text into a fresh app and presses a key."""

    async def names() -> set[str]:
        with FakeEngine() as fake:
            async with chatting(fake) as (app, _):
                return set(app.registry.commands)

    async def fresh(text: str, key: str) -> Outcome:
        with FakeEngine() as fake:
            async with chatting(fake) as (app, pilot):
                return await press(app, pilot, text, key)

    return asyncio.run(names()), lambda text, key: asyncio.run(fresh(text, key))


async def press(app: ChatApp, pilot: Pilot[None], text: str, key: str) -> Outcome:
    """Type a text and press a key in a running app; commands note that they ran and do nothing else."""
    ran: list[str] = []
    for name, command in list(app.registry.commands.items()):
        app.registry.commands[name] = replace(command, run=lambda _, name=name: ran.append(name))
    app.prompt.show("")
    app.prompt.paste(text)
    await pilot.press(key)
    assert len(ran) <= 1 and not app.session.busy
    return (ran[0] if ran else None), app.prompt.text
