from __future__ import annotations

from pathlib import Path

import pytest
from agent_kit import CALC, FIX, FIXED, project
from textual.pilot import Pilot
from tui_kit import agent_in, ask, chatting, enter, shown, until
from ultra_sdk.protocol import Error
from ultra_sdk.testing import Answer, FakeEngine, Thought
from ultra_tui.app import ChatApp

RUN = "```bash\necho 1\n```"
LOOK = "```bash\ncat calc.py\n```"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ULTRA_DATA_DIR", str(tmp_path / "data"))


async def card(app: ChatApp, pilot: Pilot[None], what: str) -> None:
    """Wait until a question is on the card, and for as long as a person takes to read it."""
    assert app.agent is not None
    pane = app.agent
    await until(pilot, lambda: pane.card.request is not None and what in pane.card.request.what)
    await pilot.pause(0.7)


async def test_a_task_is_shown_as_it_is_done(tmp_path: Path) -> None:
    root = project(tmp_path)
    with FakeEngine([LOOK, FIX]) as fake:
        async with chatting(fake, (100, 40), agent=agent_in(root, fake, "auto")) as (app, pilot):
            assert "auto" in app.status.line
            await ask(app, pilot, "mend the sum")
            text = shown(app.transcript)
            line = app.status.line
    assert "▌ mend the sum" in text and "$ cat calc.py" in text
    assert "± edited calc.py +1 -1" in text and "-    return a - b" in text and "+    return a + b" in text
    assert "✓ unittest passed" in text and "✓ verified by the project's checks · 2 steps" in text
    assert line.startswith("● ready · auto · ") and (root / "calc.py").read_text() == FIXED


async def test_the_person_is_asked_on_a_card_and_typed_ahead_keys_answer_nothing(tmp_path: Path) -> None:
    root = project(tmp_path)
    with FakeEngine([RUN, FIX, "DONE: I may not."]) as fake:
        async with chatting(fake, (100, 40), agent=agent_in(root, fake)) as (app, pilot):
            assert app.agent is not None
            await enter(app, pilot, "repair the sum in @calc.py")
            await until(pilot, lambda: app.agent is not None and app.agent.card.request is not None)
            await pilot.press("y")
            assert app.agent.card.request is not None and "asks you" in app.status.line
            await card(app, pilot, "echo 1")
            await pilot.press("y")
            await card(app, pilot, "calc.py")
            assert "+    return a + b" in str(app.agent.card.render())
            await pilot.press("n")
            await until(pilot, lambda: not app.session.busy)
            assert app.focused is app.prompt and not app.agent.card.display
            assert "✕ you refused it" in shown(app.transcript)
    assert (root / "calc.py").read_text() == CALC


async def test_escape_on_a_question_refuses_and_then_stops_the_turn(tmp_path: Path) -> None:
    with FakeEngine([RUN, Answer(["x"], then="hang"), "Fine."]) as fake:
        async with chatting(fake, agent=agent_in(project(tmp_path), fake)) as (app, pilot):
            await enter(app, pilot, "look")
            await card(app, pilot, "echo")
            await pilot.press("escape")
            await until(pilot, lambda: len(fake.creates) == 2)
            await pilot.press("escape")
            await until(pilot, lambda: not app.session.busy)
            assert "■ stopped" in shown(app.transcript) and app.status.line.startswith("■ stopped")
            await ask(app, pilot, "again")
            assert "Fine." in shown(app.transcript)


async def test_said_right_after_a_stop_it_is_sent(tmp_path: Path) -> None:
    with FakeEngine([Answer(["x"], then="hang"), "Fine."]) as fake:
        async with chatting(fake, agent=agent_in(project(tmp_path), fake)) as (app, pilot):
            await enter(app, pilot, "one")
            await enter(app, pilot, "two")
            await until(pilot, lambda: fake.creates)
            app.action_stop()
            assert app.prompt.text == "two" and app.session.busy
            app.session.say("three")
            await until(pilot, lambda: len(fake.creates) == 2 and not app.session.busy)
            assert ((fake.creates[1].messages or [])[-1].content or "").endswith("Task: three")
            assert app.prompt.text == "two"


async def test_stopped_while_asking_the_card_goes(tmp_path: Path) -> None:
    with FakeEngine(RUN) as fake:
        async with chatting(fake, agent=agent_in(project(tmp_path), fake)) as (app, pilot):
            assert app.agent is not None
            await enter(app, pilot, "look")
            await card(app, pilot, "echo")
            await pilot.press("ctrl+c")
            await until(pilot, lambda: not app.session.busy)
            assert not app.agent.card.display and app.focused is app.prompt


async def test_undo_and_redo(tmp_path: Path) -> None:
    root = project(tmp_path)
    with FakeEngine([LOOK, FIX]) as fake:
        async with chatting(fake, agent=agent_in(root, fake, "auto")) as (app, pilot):
            await ask(app, pilot, "/undo")
            assert "There is nothing to undo" in shown(app.transcript)
            await ask(app, pilot, "mend the sum")
            await ask(app, pilot, "/undo")
            assert "Taken back: mend the sum" in shown(app.transcript)
            assert (root / "calc.py").read_text() == CALC
            await ask(app, pilot, "/redo")
            assert (root / "calc.py").read_text() == FIXED


async def test_shift_tab_changes_the_mode(tmp_path: Path) -> None:
    root = project(tmp_path)
    with FakeEngine([FIX, "DONE: so."]) as fake:
        async with chatting(fake, agent=agent_in(root, fake)) as (app, pilot):
            for mode in ("auto-edit", "auto", "read-only", "ask", "auto-edit", "auto", "read-only"):
                await pilot.press("shift+tab")
                assert f" · {mode}" in app.status.line
            await ask(app, pilot, "mend @calc.py")
            assert "not allowed in read-only mode" in shown(app.transcript)
    assert (root / "calc.py").read_text() == CALC


async def test_commands_of_the_person(tmp_path: Path) -> None:
    root = project(tmp_path)
    with FakeEngine("I see.") as fake:
        async with chatting(fake, agent=agent_in(root, fake)) as (app, pilot):
            await ask(app, pilot, "!echo one two; touch made")
            assert "▌ !echo one two" in shown(app.transcript) and "\n    one two" in shown(app.transcript)
            assert (root / "made").exists()
            await ask(app, pilot, "and?")
            assert "$ echo one two; touch made" in ((fake.creates[0].messages or [])[-1].content or "")


async def test_files_are_offered_and_completed(tmp_path: Path) -> None:
    root = project(tmp_path, {"src/my file.py": "", "src/main.py": "", "x.py": ""})
    with FakeEngine() as fake:
        async with chatting(fake, agent=agent_in(root, fake)) as (app, pilot):
            assert app.agent is not None
            pane = app.agent
            await until(pilot, lambda: pane.offered("@"))
            await pilot.press(*"see @mai")
            hints = app.query_one("#hints")
            assert hints.display and "src/main.py" in str(hints.content)  # type: ignore[attr-defined]
            await pilot.press("tab")
            assert app.prompt.text == "see @src/main.py "
            app.prompt.show("see @src/my f")
            await pilot.press("tab")
            assert app.prompt.text == 'see @"src/my file.py" '
            app.prompt.show("user@x")
            await pilot.press("tab")
            assert app.prompt.text == "user@x"


async def test_reasoning_is_shown_as_such(tmp_path: Path) -> None:
    with FakeEngine(Answer([Thought("Let me see."), "It adds."])) as fake:
        async with chatting(fake, agent=agent_in(project(tmp_path), fake)) as (app, pilot):
            await ask(app, pilot, "what does it do?")
            assert "It adds." in shown(app.transcript) and "Let me see." not in shown(app.transcript)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "Let me see." in shown(app.transcript))


async def test_between_agent_and_chat(tmp_path: Path) -> None:
    with FakeEngine("Hello.") as fake:
        async with chatting(fake, agent=agent_in(project(tmp_path), fake)) as (app, pilot):
            await ask(app, pilot, "/chat")
            assert " · ask" not in app.status.line
            await ask(app, pilot, "hi")
            assert [message.content for message in fake.creates[0].messages or []] == ["hi"]
            await ask(app, pilot, "/agent")
            await ask(app, pilot, "hi")
            assert len(fake.creates[1].messages or []) > 2


async def test_errors_are_lines_and_the_queue_comes_back(tmp_path: Path) -> None:
    with FakeEngine([Answer(["x"], delay=2.0, error=Error("engine_failed", "it [b]broke")), "Fine."]) as fake:
        async with chatting(fake, agent=agent_in(project(tmp_path), fake)) as (app, pilot):
            await enter(app, pilot, "one")
            await enter(app, pilot, "two")
            await until(pilot, lambda: not app.session.busy and app.prompt.text == "two")
            await until(pilot, lambda: "✕ failed: it [b]broke" in shown(app.transcript))


async def test_a_session_is_gone_on_with(tmp_path: Path) -> None:
    root = project(tmp_path)
    with FakeEngine("Hello.") as fake:
        async with chatting(fake, agent=agent_in(root, fake)) as (app, pilot):
            await ask(app, pilot, "my name is Ada")
        async with chatting(fake, agent=agent_in(root, fake, resume="")) as (app, pilot):
            await ask(app, pilot, "who am I?")
            assert any("Ada" in (message.content or "") for message in fake.creates[1].messages or [])
            await ask(app, pilot, "/new")
            await ask(app, pilot, "who am I?")
            assert not any("Ada" in (message.content or "") for message in fake.creates[2].messages or [])
