from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tui_kit import link_to
from ultra_sdk import ChatMessage, ToolCall
from ultra_sdk.protocol import Error
from ultra_sdk.testing import Answer, FakeEngine, Thought
from ultra_tui.session import Outcome, Session


class Record:
    """A view that notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.text = ""

    def asked(self, text: str) -> None:
        self.said.append(f"asked {text}")
        self.text = ""

    def fragment(self, text: str) -> None:
        self.text += text

    def thought(self, text: str) -> None:
        self.said.append(f"thought {text}")

    def called(self, piece: ToolCall) -> None:
        self.said.append(f"called {piece.name}{piece.arguments}")

    def answered(self, outcome: Outcome) -> None:
        self.said.append(f"{outcome}: {self.text}")

    def warn(self, text: str, error: bool = False) -> None:
        self.said.append(f"{'error' if error else 'warning'} {text}")

    def returned(self, texts: list[str]) -> None:
        self.said.append(f"returned {texts}")

    def changed(self) -> None:
        pass


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen in time")


async def idle(session: Session) -> None:
    await until(lambda: not session.busy)


def talk(create: object) -> list[tuple[str, str | None]]:
    return [(m.role, m.content) for m in create.messages]  # type: ignore[attr-defined]


async def test_the_whole_conversation_is_sent_each_time() -> None:
    with FakeEngine(["Hello there.", "Fine."]) as fake:
        view = Record()
        session = Session(link_to(fake), view, {"max_tokens": 9, "temperature": 0.5, "seed": 3}, "Be brief.")
        session.say("hi")
        await idle(session)
        session.say("how are you?")
        await idle(session)
        await session.close()
    assert view.said == ["asked hi", "stop: Hello there.", "asked how are you?", "stop: Fine."]
    assert talk(fake.creates[1]) == [
        ("system", "Be brief."),
        ("user", "hi"),
        ("assistant", "Hello there."),
        ("user", "how are you?"),
    ]
    assert fake.creates[0].max_tokens == 9
    assert (fake.creates[0].sampling.temperature, fake.creates[0].sampling.seed) == (0.5, 3)
    assert session.last_answer == "Fine."


async def test_cancel_is_at_once_and_the_next_message_is_answered_the_first_time() -> None:
    with FakeEngine([Answer(["half "], then="hang"), "whole"]) as fake:
        view = Record()
        session = Session(link_to(fake), view)
        session.say("long")
        await until(lambda: view.text)
        assert session.cancel()
        assert not session.busy and view.said[-1] == "cancelled: half "
        assert session.meter.state == "cancelled"
        session.say("next")
        await idle(session)
        await until(lambda: fake.cancels)
        await session.close()
    assert view.said[-1] == "stop: whole"
    assert talk(fake.creates[1]) == [("user", "long"), ("assistant", "half "), ("user", "next")]
    assert fake.cancels == [fake.creates[0].id]
    assert not session.cancel()


async def test_messages_queue_while_an_answer_comes_and_can_be_taken_back() -> None:
    with FakeEngine([Answer(["a"], delay=0.1), "b", "c"]) as fake:
        view = Record()
        session = Session(link_to(fake), view)
        for text in ("one", "two", "three", "oops"):
            session.say(text)
        assert session.unqueue() == "oops"
        await until(lambda: len(view.said) == 6 and not session.busy)
        await session.close()
    assert view.said == ["asked one", "stop: a", "asked two", "stop: b", "asked three", "stop: c"]
    assert session.unqueue() is None


@pytest.mark.parametrize("cancelled", [True, False])
async def test_after_a_cancel_or_a_failure_the_queue_is_given_back(cancelled: bool) -> None:
    error = Error("engine_failed", "the engine lost its mind")
    answer = Answer(["x"], then="hang") if cancelled else Answer(["x"], delay=0.2, error=error)
    with FakeEngine(answer) as fake:
        view = Record()
        session = Session(link_to(fake), view)
        session.say("one")
        session.say("two")
        await until(lambda: view.text)
        if cancelled:
            session.cancel()
        await idle(session)
        await session.close()
    assert "returned ['two']" in view.said
    assert session.queue == [] and len(fake.creates) == 1
    if not cancelled:
        assert view.said[-1] == "error The engine lost its mind"


async def test_a_question_without_an_answer_leaves_no_trace() -> None:
    error = Error("prompt_too_long", "the prompt has 5,000 tokens, the context holds 4,096")
    with FakeEngine([Answer(error=error), "fine"]) as fake:
        view = Record()
        session = Session(link_to(fake), view)
        session.say("x" * 9)
        await idle(session)
        session.say("short")
        await idle(session)
        await session.close()
    assert view.said[2] == (
        "error The prompt has 5,000 tokens, the context holds 4,096. /new starts a new conversation."
    )
    assert talk(fake.creates[1]) == [("user", "short")]


async def test_a_lost_engine_is_told_and_reached_again_with_the_next_message() -> None:
    with FakeEngine([Answer(["half"], then="drop"), "whole"]) as fake:
        view = Record()
        session = Session(link_to(fake), view)
        session.say("one")
        await idle(session)
        assert view.said[1] == "failed: half" and view.said[2].startswith("error ")
        session.say("two")
        await idle(session)
        await session.close()
    assert view.said[-1] == "stop: whole"


async def test_a_full_context_is_told_with_both_numbers() -> None:
    with FakeEngine(Answer(["a", "b"], finish="length", prompt_tokens=14), context_tokens=16) as fake:
        view = Record()
        session = Session(link_to(fake), view)
        session.say("one")
        await idle(session)
        await session.close()
    assert view.said[-1] == "warning The context is full: 16 of 16 tokens. /new starts a new conversation."


async def test_a_limit_of_tokens_is_told() -> None:
    with FakeEngine("a b c d") as fake:
        view = Record()
        session = Session(link_to(fake), view, {"max_tokens": 2})
        session.say("one")
        await idle(session)
        await session.close()
    assert view.said[1:] == ["length: a b", "warning The answer was cut at 2 tokens, the limit that was set."]


async def test_no_engine_is_told() -> None:
    with FakeEngine() as fake:
        link = link_to(fake)
    view = Record()
    session = Session(link, view)
    session.say("one")
    await idle(session)
    await session.close()
    assert view.said[1] == "failed: " and view.said[2].startswith("error ")
    assert session.messages == []


async def test_a_new_conversation_has_no_past() -> None:
    with FakeEngine() as fake:
        session = Session(link_to(fake), Record())
        session.say("one")
        await idle(session)
        session.forget()
        session.say("two")
        await idle(session)
        await session.close()
    assert talk(fake.creates[1]) == [("user", "two")]
    assert isinstance(session.messages[0], ChatMessage)


async def test_reasoning_and_calls_are_told_apart_and_the_reasoning_goes_back() -> None:
    answer = Answer([Thought("hm"), "Yes", ToolCall(0, "c", "read", "{}"), "."], delay=0.02)
    with FakeEngine([answer, "Fine.", Answer([Thought("only")])]) as fake:
        view = Record()
        session = Session(link_to(fake), view)
        session.say("one")
        await idle(session)
        assert view.said == ["asked one", "thought hm", "called read{}", "stop: Yes."]
        session.say("two")
        await idle(session)
        session.say("three")
        await idle(session)
        assert len(session.messages) == 4, "without an answer the question is dropped"
    assert fake.creates[1].messages == [
        ChatMessage("user", "one"),
        ChatMessage("assistant", "Yes.", reasoning="hm"),
        ChatMessage("user", "two"),
    ]
