"""The scripted engine keeps the promises that the server relies on."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.face import EngineFace
from ultra_engine.request import Delta, Done, Event, Failed, Queued, Request, SamplingParams
from ultra_engine.testing import Reply, ScriptedEngine, limit


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    engine = ScriptedEngine(Reply(["a", "b", "c"], delay=0.01))
    yield engine
    engine.close()


def run(engine: EngineFace, request: Request) -> list[Event]:
    events: queue.Queue[Event] = queue.Queue()
    engine.submit(request, events.put)
    heard = [events.get(timeout=10)]
    while not isinstance(heard[-1], (Done, Failed)):
        heard.append(events.get(timeout=10))
    return heard


def test_a_request_runs_to_its_end(engine: ScriptedEngine) -> None:
    heard = run(engine, Request("r", prompt="one two", n=2))
    assert isinstance(heard[0], Queued)
    for sample in (0, 1):
        assert "".join(e.text for e in heard if isinstance(e, Delta) and e.sample == sample) == "abc"
    assert isinstance(heard[-1], Done) and heard[-1].stats.output_tokens == 6


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (Request("r", prompt="x", sampling=SamplingParams(top_p=7)), "invalid_request"),
        (Request("r", prompt="x " * 5000), "prompt_too_long"),
    ],
)
def test_what_cannot_run_fails_through_the_sink(engine: ScriptedEngine, request_: Request, code: str) -> None:
    [_, failed] = run(engine, request_)
    assert isinstance(failed, Failed) and failed.code == code


def test_close_ends_what_runs_waits_and_comes_late() -> None:
    engine = ScriptedEngine(Reply(["a"] * 1000, delay=0.01))
    heard: dict[str, list[Event]] = {name: [] for name in "abc"}
    for name in "ab":
        engine.submit(Request(name, prompt="x"), heard[name].append)
    engine.close()
    engine.submit(Request("c", prompt="x"), heard["c"].append)
    for events in heard.values():
        ends = [event for event in events if isinstance(event, (Done, Failed))]
        assert len(ends) == 1 and isinstance(ends[0], Failed) and ends[0].code == "shutting_down"


@given(st.lists(st.text("ab", max_size=4), max_size=6), st.text("ab", min_size=1, max_size=3))
def test_the_text_ends_just_before_the_first_stop_string(chunks: list[str], stop: str) -> None:
    shown, finish = limit(chunks, Request("r", sampling=SamplingParams(stop=(stop,))), 100)
    text = "".join(chunks)
    assert "".join(shown) == text.split(stop)[0]
    assert finish == "stop"
