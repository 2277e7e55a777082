"""The transcript in the running app: drawing, scrolling, resizing, selecting."""

from __future__ import annotations

import pytest
from tui_kit import ask, chatting, enter, shown, strips_of, until
from ultra_sdk.testing import Answer, FakeEngine

MARKDOWN = "# Title\n\nSome **bold** words.\n\n```python\ndef f():\n    return 1\n```\n\n- one\n- two\n"


async def test_resized_while_streaming_it_looks_as_if_it_was_never_another_size() -> None:
    answer = Answer([f"{word} " for word in (MARKDOWN * 8).split(" ")], delay=0.005)
    with FakeEngine([answer]) as fake:
        async with chatting(fake, size=(90, 30)) as (app, pilot):
            await enter(app, pilot, "go")
            for width in (40, 120, 33, 72):
                await pilot.pause(0.05)
                await pilot.resize_terminal(width, 30)
            await until(pilot, lambda: app.session.messages)
            await until(pilot, lambda: app.clock is not None and not app.clock.running)
            resized = [list(strip) for strip in strips_of(app.transcript)][:-1]
            assert app.transcript.following
        async with chatting(fake, size=(72, 30)) as (app, pilot):
            await ask(app, pilot, "go")
            fresh = [list(strip) for strip in strips_of(app.transcript)][:-1]
    assert resized == fresh


async def test_the_screen_shows_the_rows_of_the_transcript() -> None:
    with FakeEngine("line\n\n" * 60) as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "go")
            transcript = app.transcript
            height = transcript.size.height
            rows = [transcript.render_line(y).text.rstrip() for y in range(height)]
            assert rows == [strip.text.rstrip() for strip in strips_of(transcript)[-height:]]
            assert len(app.query("*")) < 60


async def test_held_by_the_person_the_view_stays_and_counts_what_comes() -> None:
    many = Answer(["word\n\n"] * 100, delay=0.004)
    with FakeEngine(["line\n\n" * 60, many]) as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "go")
            transcript = app.transcript
            await pilot.press("pageup", "pageup")
            assert not transcript.following
            top = transcript.scroll_offset.y
            transcript.begin_answer()
            for _ in range(40):
                app.transcript.fragment("new\n\n")
                await pilot.pause(0.01)
            await until(pilot, lambda: transcript.unseen > 50)
            assert transcript.scroll_offset.y == top
            last = transcript.render_line(transcript.size.height - 1).text
            assert f"↓ {transcript.unseen} new lines" in last
            await pilot.press("ctrl+end")
            assert transcript.following and transcript.unseen == 0
            app.transcript.end_answer()


async def test_scrolled_back_to_the_end_it_follows_again() -> None:
    with FakeEngine("line\n\n" * 60) as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "go")
            await pilot.press("pageup")
            assert not app.transcript.following
            await pilot.press("pagedown", "pagedown")
            assert app.transcript.following
            await pilot.press("ctrl+home")
            assert not app.transcript.following and app.transcript.scroll_offset.y == 0


async def test_the_clock_stands_still_when_nothing_happens() -> None:
    with FakeEngine(Answer(["a "] * 50, delay=0.004)) as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "go")
            clock = app.clock
            assert clock is not None
            before = clock.ticks
            assert 2 <= before < 50
            await pilot.pause(0.3)
            assert clock.ticks == before and not clock.running


async def test_themes_restyle_what_is_shown() -> None:
    with FakeEngine("text") as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "go")
            dark = app.transcript.render_line(0)
            await enter(app, pilot, "/theme ultra-light")
            await until(pilot, lambda: app.transcript.render_line(0) != dark)
            await enter(app, pilot, "/theme nosuch")
            await until(pilot, lambda: "There is no theme nosuch" in shown(app.transcript))


async def test_untrusted_text_reaches_no_screen_as_a_command() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J [red]x[/red] \u202etxt ` \x1b[31m `\n```\n\x1b[5mcode\x9b0m\n```\n"
    with FakeEngine([Answer(list(evil))], model="m\x1b[2J") as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "quote \x1b[2J")
            text = shown(app.transcript) + app.status.line + app.export_screenshot()
            assert "\x1b" not in text and "\x9b" not in text and "\u202e" not in text
            assert "[red]x[/red]" in shown(app.transcript)
            assert app.session.last_answer == evil


async def test_text_selected_with_the_mouse_is_copied_without_margins() -> None:
    with FakeEngine("first *line*\n\n```py\nx = 1\n```\n") as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "go")
            rows = [strip.text.rstrip() for strip in strips_of(app.transcript)]
            first, last = rows.index("  first line"), rows.index("   x = 1")
            await pilot.mouse_down(app.transcript, offset=(2, first))
            await pilot.hover(app.transcript, offset=(9, last))
            await pilot.mouse_up(app.transcript, offset=(9, last))
            assert app.transcript.text_selection is not None
            before = app.transcript.render_line(first)
            await pilot.press("ctrl+c")
            copied = app.clipboard.split("\n")
            assert copied[0] == "first line" and copied[-1].strip() == "x = 1"
            await pilot.pause()
            assert app.transcript.render_line(first) != before
            assert app.focused is app.prompt


@pytest.mark.parametrize("size", [(1, 1), (5, 3), (12, 4)])
async def test_a_window_of_almost_nothing_harms_nothing(size: tuple[int, int]) -> None:
    with FakeEngine(MARKDOWN) as fake:
        async with chatting(fake, size=size) as (app, pilot):
            await ask(app, pilot, "go")
            await pilot.resize_terminal(60, 20)
            await until(pilot, lambda: "return 1" in shown(app.transcript))


async def test_resized_while_held_the_same_rows_stay_on_screen() -> None:
    with FakeEngine(MARKDOWN * 6) as fake:
        async with chatting(fake, size=(100, 24)) as (app, pilot):
            await ask(app, pilot, "go " * 60)
            await pilot.press("pageup", "pageup")
            top = app.transcript.scroll_offset.y
            rows = [app.transcript.render_line(y).text.rstrip() for y in range(5)]
            for width in (50, 130, 37, 100):
                await pilot.resize_terminal(width, 24)
            await until(pilot, lambda: app.clock is not None and not app.clock.running)
            assert not app.transcript.following
            assert app.transcript.scroll_offset.y == top
            assert [app.transcript.render_line(y).text.rstrip() for y in range(5)] == rows
