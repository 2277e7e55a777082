from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tui_kit import ask, chatting, enter, link_to, shown, until
from ultra_sdk.protocol import Error
from ultra_sdk.testing import Answer, FakeEngine
from ultra_tui.app import ChatApp

MARKDOWN = "# Title\n\nSome **bold** words.\n\n```python\ndef f():\n    return 1\n```\n\n- one\n- two\n"


async def test_a_question_is_answered_in_rendered_markdown() -> None:
    with FakeEngine(MARKDOWN, model="tiny", context_tokens=100) as fake:
        async with chatting(fake) as (app, pilot):
            assert "tiny · 100 tokens of context" in shown(app.transcript)
            await pilot.press(*"hello", "enter")
            await until(pilot, lambda: app.session.messages)
            await until(pilot, lambda: app.clock is not None and not app.clock.running)
            text = shown(app.transcript)
            line = app.status.line
    assert "▌ hello" in text
    assert "  Title\n\n  Some bold words.\n" in text
    assert "   def f():\n       return 1\n\n  • one\n  • two\n" in text
    assert "12 tokens · " in text and "first token" in text
    assert line.startswith("● ready · ") and "tok/s" in line and "context 20 / 100 (20%)" in line
    assert line.endswith("tiny")


async def test_escape_stops_at_once_and_keeps_what_came() -> None:
    with FakeEngine([Answer(["half of ", "it"], then="hang"), "whole"]) as fake:
        async with chatting(fake) as (app, pilot):
            await enter(app, pilot, "go")
            await until(pilot, lambda: "half of it" in shown(app.transcript))
            assert "▶ answering" in app.status.line
            begun = asyncio.get_running_loop().time()
            await pilot.press("escape")
            assert not app.session.busy
            assert asyncio.get_running_loop().time() - begun < 2
            text = shown(app.transcript)
            assert "half of it" in text and "■ stopped · 2 tokens" in text
            assert app.status.line.startswith("■ stopped")
            await ask(app, pilot, "again")
            assert "whole" in shown(app.transcript)
            await pilot.press("escape")
            assert "whole" in shown(app.transcript) and app.is_running


async def test_messages_queue_are_shown_and_can_be_taken_back() -> None:
    with FakeEngine([Answer(["x"], then="hang"), "done"]) as fake:
        async with chatting(fake) as (app, pilot):
            for text in ("one", "two", "three"):
                await enter(app, pilot, text)
            queue = app.query_one("#queue")
            assert queue.display and "↳ queued: two\n↳ queued: three" in str(queue.content)  # type: ignore[attr-defined]
            await pilot.press("up")
            assert app.prompt.text == "three" and app.session.queue == ["two"]
            await until(pilot, lambda: app.session.meter.output_tokens)
            await pilot.press("escape")
            assert app.prompt.text == "three\ntwo"
            await until(pilot, lambda: not queue.display)


async def test_errors_are_one_line_and_the_app_goes_on() -> None:
    error = Error("engine_failed", "the engine [bold]fell over\n  badly")
    with FakeEngine([Answer(["half"], error=error), Answer(["more"], then="drop"), "fine"]) as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "one")
            assert "✕ The engine [bold]fell over badly" in shown(app.transcript)
            assert app.status.line.startswith("✕ failed")
            await ask(app, pilot, "two")
            await ask(app, pilot, "three")
            assert "fine" in shown(app.transcript)


async def test_without_an_engine_the_app_lives_and_tries_again() -> None:
    with FakeEngine() as gone:
        link = link_to(gone)
    app = ChatApp(link)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.session.meter.state == "offline")
        assert "✕ " in shown(app.transcript) and "○ no engine" in app.status.line
        await enter(app, pilot, "hello?")
        await until(pilot, lambda: app.session.meter.state == "failed")
        assert shown(app.transcript).count("✕") == 2


async def test_help_new_clear_and_copy() -> None:
    with FakeEngine("The *answer*.") as fake:
        async with chatting(fake) as (app, pilot):
            await enter(app, pilot, "/copy")
            await ask(app, pilot, "go")
            await enter(app, pilot, "/copy")
            assert app.clipboard == "The *answer*."
            await enter(app, pilot, "/help")
            await pilot.pause()
            assert "/export [file]" in shown(app.transcript)
            await enter(app, pilot, "/clear")
            assert "The answer." not in shown(app.transcript) and app.session.messages
            await enter(app, pilot, "/new")
            assert app.session.messages == []
            assert "ultra-chat" in shown(app.transcript)


async def test_export_writes_once_and_overwrites_nothing(tmp_path: Path) -> None:
    with FakeEngine("The *answer*.") as fake:
        async with chatting(fake) as (app, pilot):
            path = tmp_path / "talk.md"
            await enter(app, pilot, f"/export {path}")
            assert not path.exists()
            await ask(app, pilot, "go")
            for _ in range(2):
                await enter(app, pilot, f"/export {path}")
            assert path.read_text() == "## You\n\ngo\n\n## Answer\n\nThe *answer*.\n"
            assert "talk.md exists" in " ".join(shown(app.transcript).split())  # the path may fill a line
            await enter(app, pilot, f"/export {tmp_path}/no/such/folder.md")
            assert "could not be written" in shown(app.transcript)


async def test_model_shows_and_switches() -> None:
    with FakeEngine(model="tiny") as fake:
        async with chatting(fake) as (app, pilot):
            await enter(app, pilot, "/model")
            await until(pilot, lambda: "tiny, 4,096 tokens" in shown(app.transcript))
            await enter(app, pilot, "/model other")
            await until(pilot, lambda: app.engine.model == "other" and app.session.meter.state == "ready")


async def test_an_unknown_command_is_kept_and_other_text_is_sent() -> None:
    with FakeEngine("ok") as fake:
        async with chatting(fake) as (app, pilot):
            await enter(app, pilot, "/tmp")
            assert app.prompt.text == "/tmp"
            await pilot.press("escape")
            assert app.prompt.text == "/tmp"
            app.prompt.show("")
            await ask(app, pilot, "/usr/bin/env is missing, why?")
            await ask(app, pilot, "//comment")
            assert [create.messages[-1].content for create in fake.creates if create.messages] == [
                "/usr/bin/env is missing, why?",
                "//comment",
            ]


async def test_hints_and_completion() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.press(*"/he")
            hints = app.query_one("#hints")
            await until(pilot, lambda: hints.display)
            assert "/help  list the commands and keys" in str(hints.content)  # type: ignore[attr-defined]
            await pilot.press("tab")
            assert app.prompt.text == "/help" and not fake.creates
            app.prompt.show("")
            await until(pilot, lambda: not hints.display)


@pytest.mark.parametrize(
    "keys", [["ctrl+d"], ["ctrl+c", "ctrl+c"], ["ctrl+q"], [*"/exit", "enter"], [*"/quit", "enter"]]
)
async def test_quitting(keys: list[str]) -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.press(*keys)
            await pilot.pause()
            assert not app.is_running or app._exit
            assert app.return_code == 0


async def test_one_ctrl_c_stops_the_answer_and_quits_nothing() -> None:
    with FakeEngine(Answer(["x"], then="hang")) as fake:
        async with chatting(fake) as (app, pilot):
            app.prompt.paste("go")
            await pilot.press("enter", "ctrl+c")
            assert not app.session.busy and not app._exit
            await pilot.press("ctrl+c")
            assert not app._exit
            await pilot.press(*"text", "ctrl+d")
            assert not app._exit and app.prompt.text == "text"


async def test_the_palette_offers_the_commands() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.press("ctrl+p", *"help", "enter")
            await until(pilot, lambda: "Commands" in shown(app.transcript))
            assert app.focused is app.prompt


async def test_focus_is_never_lost() -> None:
    with FakeEngine("text") as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.click(app.transcript, offset=(3, 3))
            await pilot.press("tab", "shift+tab", *"ab")
            assert app.prompt.text == "ab"
