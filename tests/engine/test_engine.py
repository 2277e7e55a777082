"""The engine's promises: one terminal event each, whatever happens; the same text for the same request."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engine.collect import ENDLESS, Collector, open_engine, run, same_bits_whatever_ran_before, start
from ultra_engine.engine import Engine
from ultra_engine.errors import ModelError
from ultra_engine.request import Delta, Done, Failed, Prefill, Queued, Request
from ultra_engine.runner import CHUNK


def test_events_come_in_order(engine: Engine) -> None:
    collector = run(engine, max_tokens=5)
    kinds = [type(event).__name__ for event in collector.events]
    assert kinds == ["Queued", "Prefill", "Prefill", *["Delta"] * 5, "SampleDone", "Done"]
    done = collector.wait()
    assert isinstance(done, Done) and done.finish == "length"
    assert done.stats.prompt_tokens == 9 and done.stats.steps == 5
    assert 0 < done.stats.ttft_ms <= done.stats.total_ms
    assert done.stats.prefill_ms + done.stats.decode_ms <= done.stats.total_ms


def test_tools_are_in_the_prompt_and_their_answers_are_told_token_by_token(engine: Engine) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 20}
    tools = [{"name": "read", "description": "Read a file.", "parameters": {"type": "object"}}]
    plain = run(engine, temperature=1.0, seed=7, **asked).wait()
    told = run(engine, temperature=1.0, seed=7, **asked, tools=tools, n=2)
    done = told.wait()
    assert isinstance(plain, Done) and isinstance(done, Done)
    assert done.stats.prompt_tokens > plain.stats.prompt_tokens + 20
    assert len(told.tokens(0)) == len(told.tokens(1)) == 20 and engine.info.capabilities == ("tools",)


def test_the_same_seed_gives_the_same_text_alone_or_after_others(engine: Engine) -> None:
    first = run(engine, temperature=1.0, seed=7, max_tokens=20)
    run(engine, "something else entirely", temperature=1.0, max_tokens=9)
    again = run(engine, temperature=1.0, seed=7, max_tokens=20)
    other = run(engine, temperature=1.0, seed=8, max_tokens=20)
    assert first.tokens() == again.tokens() != other.tokens()


def test_a_drawn_seed_is_reported_and_reproduces(engine: Engine) -> None:
    first = run(engine, temperature=1.0, max_tokens=12)
    done = first.wait()
    assert isinstance(done, Done)
    assert run(engine, temperature=1.0, seed=done.seed, max_tokens=12).tokens() == first.tokens()


def test_samples_share_the_prompt_and_differ_by_seed(engine: Engine) -> None:
    many = run(engine, temperature=1.0, seed=3, n=3, max_tokens=8)
    assert many.finishes() == ["length"] * 3
    singles = [run(engine, temperature=1.0, seed=3 + i, max_tokens=8).tokens() for i in range(3)]
    assert [many.tokens(i) for i in range(3)] == singles
    assert len({tuple(tokens) for tokens in singles}) == 3
    done = many.wait()
    assert isinstance(done, Done) and done.stats.prompt_tokens == 9


def test_the_largest_seed_has_a_successor(engine: Engine) -> None:
    many = run(engine, temperature=1.0, seed=2**64 - 1, n=2, max_tokens=6)
    assert many.tokens(1) == run(engine, temperature=1.0, seed=0, max_tokens=6).tokens()


def test_the_last_conversation_is_not_computed_twice(engine: Engine) -> None:
    prompt = "a shared beginning of some length, then " * 8
    run(engine, prompt + "one", max_tokens=4)
    warm = run(engine, prompt + "two", max_tokens=6)
    done = warm.wait()
    assert isinstance(done, Done) and done.stats.cached_tokens == len(prompt) // CHUNK * CHUNK > 0
    run(engine, "unrelated", max_tokens=1)
    cold = run(engine, prompt + "two", max_tokens=6)
    assert cold.tokens() == warm.tokens()


def test_a_fully_cached_prompt_still_gets_its_logits(engine: Engine) -> None:
    """Also where the prompt is a whole number of chunks: the last chunk is run again."""
    for length in (CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK):
        first = run(engine, "z" * length, max_tokens=5)
        second = run(engine, "z" * length, max_tokens=5)
        done = second.wait()
        assert isinstance(done, Done) and done.stats.cached_tokens == (length - 1) // CHUNK * CHUNK
        assert second.tokens() == first.tokens()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_logits_are_the_same_bits_whatever_ran_before(qwen2: Path, precision: str) -> None:
    with Engine.open(str(qwen2), precision=precision, threads=1) as engine:
        same_bits_whatever_ran_before(engine._model)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"prompt": ""}, "prompt"),
        ({"messages": []}, "messages"),
        ({"tokens": []}, "tokens"),
        ({"tokens": [1, 260]}, "tokens"),
        ({"tokens": [-1]}, "tokens"),
        ({"temperature": float("nan")}, "temperature"),
        ({"logit_bias": {99999: 1.0}}, "logit_bias"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"logprobs": 21}, "logprobs"),
    ],
)
def test_a_bad_request_fails_by_name_and_never_queues(
    engine: Engine, options: dict[str, Any], param: str
) -> None:
    collector = run(engine, **options)
    failed = collector.wait()
    assert isinstance(failed, Failed) and (failed.code, failed.param) == ("invalid_request", param)
    assert len(collector.events) == 1


def test_a_prompt_too_long_is_refused_with_both_numbers(engine: Engine) -> None:
    collector = run(engine, "x" * 600)
    failed = collector.wait()
    assert isinstance(failed, Failed) and failed.code == "prompt_too_long"
    assert "600" in failed.message and "511" in failed.message
    assert not any(isinstance(event, Queued) for event in collector.events)


def test_the_context_is_used_to_its_last_token(qwen2: Path) -> None:
    with open_engine(qwen2, context=40) as engine:
        collector = run(engine, "x" * 30)
        done = collector.wait()
        assert isinstance(done, Done) and done.finish == "length" and done.stats.output_tokens == 10
        assert run(engine, "x" * 39).tokens() and isinstance(run(engine, "x" * 40).wait(), Failed)


def test_a_context_beyond_the_model_is_refused(qwen2: Path) -> None:
    with pytest.raises(ModelError, match="2 to 512 tokens"):
        open_engine(qwen2, context=513)


def test_cancel_while_running(engine: Engine) -> None:
    request, collector = start(engine, **ENDLESS)
    assert collector.first_delta.wait(30)
    engine.cancel(request.id)
    done = collector.wait(5)
    assert isinstance(done, Done) and done.finish == "cancelled"
    assert collector.finishes() == ["cancelled"]
    engine.cancel(request.id)  # finished: no effect
    assert run(engine, max_tokens=3).finishes() == ["length"]


def test_cancel_while_queued_ends_at_once_and_never_runs(engine: Engine) -> None:
    first, running = start(engine, n=16, **ENDLESS)
    assert running.first_delta.wait(30)
    waiting = [start(engine, n=16, **ENDLESS) for _ in range(3)]
    for request, collector in waiting:
        engine.cancel(request.id)
        done = collector.wait(5)
        assert isinstance(done, Done) and done.finish == "cancelled"
        assert not collector.deltas()
    assert not isinstance(running.events[-1], (Done, Failed))
    engine.cancel(first.id)
    running.wait(5)


def test_cancel_during_prefill(engine: Engine) -> None:
    """Seen between two tasks of a step: the text of a long prompt is not computed to its end."""
    seen = threading.Event()

    class Sink(Collector):
        def __call__(self, event: Any) -> None:
            super().__call__(event)
            if isinstance(event, Prefill):
                engine.cancel(request.id)
                seen.set()

    request, sink = Request("cancel-in-prefill", prompt="y" * 500), Sink()
    engine.submit(request, sink)
    done = sink.wait(20)
    assert seen.is_set() and isinstance(done, Done) and done.finish == "cancelled"
    assert not sink.deltas()


def test_a_known_id_is_refused_while_it_runs(engine: Engine) -> None:
    request, collector = start(engine, n=16, **ENDLESS)
    second = Collector()
    engine.submit(request, second)
    failed = second.wait()
    assert isinstance(failed, Failed) and failed.code == "duplicate_id"
    engine.cancel(request.id)
    collector.wait()


def test_closing_ends_what_runs_and_what_waits(qwen2: Path) -> None:
    engine = open_engine(qwen2)
    _, running = start(engine, n=16, **ENDLESS)
    assert running.first_delta.wait(30)
    _, waiting = start(engine)
    engine.close()
    for collector in (running, waiting):
        failed = collector.wait(5)
        assert isinstance(failed, Failed) and failed.code == "shutting_down"
    late = Collector()
    engine.submit(Request("late", prompt="x"), late)
    assert isinstance(late.wait(1), Failed)


class _Broken:
    """An executor one of whose methods fails once, in the way it is told, then works again."""

    def __init__(self, inner: Any, method: str, error: BaseException) -> None:
        self._inner, self._method, self._error = inner, method, error

    def __getattr__(self, name: str) -> Any:
        def fail(*args: Any) -> Any:
            self._method = ""
            raise self._error

        return fail if name == self._method else getattr(self._inner, name)


@pytest.mark.parametrize("method", ["run", "generate"])
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (MemoryError(), "out_of_memory", "out of memory"),
        (RuntimeError("kernel fault 12"), "engine_failed", "RuntimeError"),
        (ArithmeticError("the model's logits are not numbers (NaN)"), "engine_failed", "NaN"),
    ],
)
def test_a_fault_fails_the_request_and_not_the_engine(
    engine: Engine, method: str, error: BaseException, code: str, words: str
) -> None:
    before = run(engine, max_tokens=4).tokens()
    runner = engine._model.runner
    inner = runner._executor
    runner._executor = _Broken(inner, method, error)
    try:
        failed = run(engine, max_tokens=4).wait()
        assert isinstance(failed, Failed) and failed.code == code and words in failed.message
        assert run(engine, max_tokens=4).tokens() == before
    finally:
        runner._executor = inner


def test_a_receiver_that_raises_does_not_take_the_worker_with_it(engine: Engine) -> None:
    def sink(event: Any) -> None:
        raise RuntimeError("receiver fault")

    engine.submit(Request("bad-sink", prompt="x", max_tokens=2), sink)
    assert run(engine, max_tokens=2).finishes() == ["length"]


def test_a_full_queue_refuses_and_says_so(engine: Engine) -> None:
    info = engine.info
    engine.info = replace(info, max_queue=2)
    try:
        first, second = start(engine, n=16, **ENDLESS), start(engine, n=16, **ENDLESS)
        failed = run(engine).wait()
        assert isinstance(failed, Failed) and failed.code == "queue_full" and failed.retryable
    finally:
        engine.info = info
        for request, collector in (first, second):
            engine.cancel(request.id)
            collector.wait()


def test_logprobs_are_those_of_the_logits(engine: Engine) -> None:
    collector = run(engine, logprobs=3, max_tokens=6)
    for delta in collector.deltas():
        assert delta.logprobs is not None and len(delta.logprobs) == 1
        row = delta.logprobs[0]
        assert row.id == delta.tokens[0] == row.top[0][1]  # greedy: the likeliest
        assert row.logprob == row.top[0][2] <= 0
        assert [p for _, _, p in row.top] == sorted((p for _, _, p in row.top), reverse=True)


def test_stop_strings_cut_the_text_wherever_they_fall(engine: Engine) -> None:
    """The kind of fault: a stop string that spans tokens is sent in part, or missed."""
    whole = run(engine, max_tokens=60).text()
    for length in (1, 2, 3, 5, 8):
        for start_at in range(1, len(whole) - length, 7):
            stop = whole[start_at : start_at + length]
            collector = run(engine, max_tokens=60, stop=(stop, "\x01never"))
            want, text = whole[: whole.index(stop)], ""
            for event in collector.events:
                if isinstance(event, Delta):
                    text += event.text
                    assert want.startswith(text)
            assert text == want and collector.finishes() == ["stop"]
