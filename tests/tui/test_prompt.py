from __future__ import annotations

import pytest
from textual import events
from tui_kit import ask, chatting, until
from ultra_sdk.testing import FakeEngine


@pytest.mark.parametrize("key", ["shift+enter", "alt+enter", "ctrl+j"])
async def test_keys_for_a_new_line(key: str) -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.press(*"ab", key, *"cd")
            assert app.prompt.text == "ab\ncd" and not fake.creates


async def test_a_backslash_before_enter_is_a_new_line() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.press(*"ab", "backslash", "enter", *"cd")
            assert app.prompt.text == "ab\ncd" and not fake.creates


async def test_it_grows_with_its_text_to_ten_rows() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            heights = []
            for text in ("", "a\nb\nc", "x\n" * 9):
                app.prompt.show(text)
                await pilot.pause()
                heights.append(app.prompt.size.height)
            app.prompt.show("x\n" * 30)
            await pilot.pause()
            heights.append(app.prompt.size.height)
    assert heights == [1, 3, 10, 10]


async def test_a_blank_text_is_not_sent() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (_, pilot):
            await pilot.press("enter", "space", "enter")
            assert not fake.creates


async def test_a_megabyte_is_pasted_as_one_text_shown_as_one_mark() -> None:
    text = "".join(f"line {number} [x] \t漢\n" for number in range(40_000))
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.press(*"see ")
            app.post_message(events.Paste(text.replace("\n", "\r")))
            await until(pilot, lambda: "[Pasted 40,001 lines]" in app.prompt.text)
            await pilot.press(*" ok", "enter")
            await until(pilot, lambda: app.session.messages)
            assert [create.messages and create.messages[-1].content for create in fake.creates] == [
                f"see {text} ok"
            ]


@pytest.mark.parametrize("key", ["backspace", "ctrl+w"])
async def test_a_mark_is_deleted_as_one(key: str) -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await pilot.press(*"a ")
            app.prompt.paste("x\n" * 20)
            await pilot.press(key)
            assert app.prompt.text == "a "


async def test_a_short_paste_is_text_without_controls() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            app.post_message(events.Paste("one\r\ntwo\x1b[2J"))
            await until(pilot, lambda: app.prompt.text)
            assert app.prompt.text == "one\ntwo[2J"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([*"draft", "up", "down"], "draft"),
        ([*"draft", "up", "up", "down", "down"], "draft"),
        ([*"draft", "down", "down"], "draft"),
        (["up"], "second"),
        (["up", "up"], "first"),
        (["up", "up", "up"], "first"),
        (["up", *"-edited", "down", "up"], "second"),
        ([*"l1", "alt+enter", *"l2", "up", "up", "up", "down", "down", "down"], "l1\nl2"),
        ([*"line1", "alt+enter", *"line2", "up", "X"], "line1X\nline2"),
    ],
)
async def test_history(keys: list[str], text: str) -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            await ask(app, pilot, "first")
            await ask(app, pilot, "second")
            await pilot.press(*keys)
            assert app.prompt.text == text


async def test_a_sent_paste_comes_back_from_the_history_as_its_mark() -> None:
    with FakeEngine() as fake:
        async with chatting(fake) as (app, pilot):
            text = "x\n" * 20
            await ask(app, pilot, text)
            await pilot.press("up")
            assert app.prompt.text == "[Pasted 21 lines]"
            await pilot.press("enter")
            await until(pilot, lambda: len(fake.creates) == 2)
            assert fake.creates[1].messages and fake.creates[1].messages[-1].content == text.strip("\n")
