"""Enter runs exactly the command that was typed, for every command and every part of its name."""

from __future__ import annotations

from slash_adapter import press
from tui_kit import chatting
from ultra_sdk.testing import FakeEngine


async def test_a_whole_name_runs_once_and_only_that() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            for name in sorted(app.registry.commands):
                assert await press(app, pilot, f"/{name}", "enter") == (name, "")
                assert await press(app, pilot, f"/{name} ", "enter") == (name, "")
                run, left = await press(app, pilot, f"/{name}", "tab")
                assert run is None and left.rstrip() == f"/{name}"


async def test_a_part_of_a_name_runs_nothing_and_is_kept() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            names = set(app.registry.commands)
            parts = {name[:cut] for name in names for cut in range(1, len(name))} - names
            for part in sorted(parts):
                assert await press(app, pilot, f"/{part}", "enter") == (None, f"/{part}")
                assert await press(app, pilot, f"/{part}", "escape") == (None, f"/{part}")
