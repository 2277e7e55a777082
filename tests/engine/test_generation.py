"""Decoding in one call of the executor gives the events that single steps give, whatever ends it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine.collect import Collector, run
from ultra_engine.engine import Engine
from ultra_engine.request import Delta, Done, Failed, Request, SamplingParams
from ultra_kernels.cpu import abi
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.policy import StepTimes
from ultra_kernels.program import Word
from ultra_kernels.rounds import Rounds
from ultra_kernels.sampling import Draw, draw
from ultra_kernels.step import Executor, Heard, Step, Stream

PROMPT = "def f(x):"


class SingleSteps:
    """An executor without drafts, whose every round is a step of its own and a draw in Python: what
    `generate` must equal."""

    def __init__(self, inner: Executor) -> None:
        self.batch_invariant, self.run, self.close = inner.batch_invariant, inner.run, inner.close

    def draw(self, logits: np.ndarray, how: Draw) -> int:
        return draw(logits, how)

    def generate(
        self, step: Step, streams: Sequence[Stream], heard: Heard, stop: Callable[[], bool] = lambda: False
    ) -> None:
        plain = [replace(stream, drafting=None) for stream in streams]
        rounds = Rounds(step, plain, 10**6, StepTimes.empty(1), 1)
        while not rounds.over:
            rows = self.run(rounds.step, stop)
            tokens = [draw(row.numpy(), how) for row, how in zip(rows, rounds.draws, strict=True)]
            if not heard(rounds.take(tokens)):
                return


@pytest.fixture(scope="module", params=["cpu", "reference"])
def engine(request: pytest.FixtureRequest, qwen2: Path) -> Iterator[Engine]:
    if request.param == "cpu":
        try:
            abi.level()
        except abi.LibraryUnavailable as error:
            pytest.skip(str(error))
    with Engine.open(str(qwen2), executor=request.param, threads=2, context=80) as engine:
        yield engine


def both(engine: Engine, options: dict[str, Any]) -> tuple[Collector, Collector]:
    """The request in calls of many rounds, and by single steps."""
    runner = engine._model.runner
    inner, many = runner._executor, run(engine, PROMPT, **options)
    runner._executor = SingleSteps(inner)
    try:
        return many, run(engine, PROMPT, **options)
    finally:
        runner._executor = inner


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 1},
        {"max_tokens": 2},
        {"max_tokens": 25},
        {},  # to the end of the context
        {"temperature": 0.9, "seed": 4, "n": 3, "max_tokens": 12},
        {"temperature": 1.5, "seed": 1, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "max_tokens": 30},
        {"temperature": 1.0, "seed": 2, "repetition_penalty": 1.3, "frequency_penalty": 0.4},
        {"presence_penalty": 2.0, "logit_bias": {65: 3.0, 97: -5.0}, "max_tokens": 40},
        {"temperature": 3.0, "seed": 9, "logit_bias": {258: 4.0}, "n": 3},  # an end token, sooner or later
    ],
)
def test_the_events_are_those_of_single_steps(engine: Engine, options: dict[str, Any]) -> None:
    many, single = both(engine, options)
    for sample in range(options.get("n", 1)):
        assert many.tokens(sample) == single.tokens(sample) != []
        assert many.text(sample) == single.text(sample)
    assert many.finishes() == single.finishes()
    ends = [collector.wait() for collector in (many, single)]
    stats = [end.stats for end in ends if isinstance(end, Done)]
    assert len(stats) == 2 and stats[0].steps <= stats[1].steps and not stats[1].drafted
    assert stats[0].steps + stats[0].accepted >= stats[1].steps


def test_stop_strings_across_rounds(engine: Engine) -> None:
    """Stopped by text that spans tokens; the next request finds the KV that it left in order."""
    whole = run(engine, PROMPT, max_tokens=40).text()
    for length in (1, 3, 8):
        for at in range(2, len(whole) - length, 9):
            many, single = both(engine, {"max_tokens": 40, "stop": (whole[at : at + length],)})
            assert many.text() == single.text() and many.tokens() == single.tokens()
            assert many.finishes() == single.finishes() == ["stop"]
    again = run(engine, PROMPT, max_tokens=40)
    assert again.text() == whole


def test_one_delta_for_each_step_as_it_happens(engine: Engine) -> None:
    """Every event comes before the next step but one is done: told by the runner's own count."""
    runner, counts = engine._model.runner, []

    class Sink(Collector):
        def __call__(self, event: Any) -> None:
            super().__call__(event)
            if isinstance(event, Delta):
                counts.append(len(runner.tokens))

    sink = Sink()
    engine.submit(Request("steps", prompt=PROMPT, max_tokens=30), sink)
    done = sink.wait()
    assert isinstance(done, Done) and len(counts) == done.stats.steps
    lengths = [len(delta.tokens) for delta in sink.deltas()]
    assert lengths[0] == 1 and sum(lengths) == 30
    assert counts == list(itertools.accumulate(lengths[1:], initial=counts[0]))


@pytest.mark.parametrize("after", [1, 2, 9])
def test_cancel_in_the_middle(engine: Engine, after: int) -> None:
    """From the receiver itself: no token of a later step comes, and the next request is none the worse."""
    want = run(engine, PROMPT, temperature=1.0, seed=3, max_tokens=40)

    class Sink(Collector):
        def __call__(self, event: Any) -> None:
            super().__call__(event)
            if isinstance(event, Delta) and len(self.deltas()) == after:
                engine.cancel("cancel")

    sink = Sink()
    engine.submit(Request("cancel", prompt=PROMPT, sampling=SamplingParams(1.0, seed=3)), sink)
    done = sink.wait(10)
    assert isinstance(done, Done) and done.finish == "cancelled" and sink.finishes() == ["cancelled"]
    heard = sink.tokens()
    assert heard == want.tokens()[: len(heard)] and len(sink.deltas()) == after
    again = run(engine, PROMPT, temperature=1.0, seed=3, max_tokens=40)
    assert again.tokens() == want.tokens()


def test_logprobs_change_nothing(engine: Engine) -> None:
    options: dict[str, Any] = {"temperature": 1.0, "seed": 5, "max_tokens": 20}
    plain, told = run(engine, PROMPT, **options), run(engine, PROMPT, logprobs=2, **options)
    assert plain.tokens() == told.tokens() and plain.text() == told.text()


def test_logits_that_turn_bad_fail_the_request(engine: Engine) -> None:
    """In the middle of decoding: what was said stays said, the error has its reason, the engine lives."""
    executor: Any = engine._model.runner._executor
    turns = executor._memory[executor.program.buffer("inv_freq").id]
    want, first = run(engine, PROMPT, max_tokens=20).tokens(), float(turns[0])

    class Sink(Collector):
        def __call__(self, event: Any) -> None:
            super().__call__(event)
            if isinstance(event, Delta) and len(self.deltas()) == 4:
                turns[0] = np.nan

    sink = Sink()
    engine.submit(Request("bad", prompt=PROMPT, max_tokens=20), sink)
    failed = sink.wait(10)
    turns[0] = first
    assert isinstance(failed, Failed) and failed.code == "engine_failed" and "NaN" in failed.message
    assert sink.tokens() == want[: len(sink.tokens())] and 4 <= len(sink.deltas()) <= 5
    assert run(engine, PROMPT, max_tokens=20).tokens() == want


def test_a_worker_that_throws_fails_the_request_and_not_the_engine(engine: Engine) -> None:
    """In the middle of decoding: the client has what was said before, and a typed error."""
    executor = engine._model.runner._executor
    if not isinstance(executor, CpuExecutor):
        pytest.skip("the reference executor has no workers")
    want, words = run(engine, PROMPT, max_tokens=30).tokens(), executor._tasks[7]
    whole = words.copy()

    class Sink(Collector):
        def __call__(self, event: Any) -> None:
            super().__call__(event)
            if isinstance(event, Delta) and len(self.deltas()) == 5:
                words[Word.OP], words[Word.START] = 255, 1

    sink = Sink()
    engine.submit(Request("fault", prompt=PROMPT, max_tokens=30), sink)
    failed = sink.wait(10)
    words[:] = whole
    assert isinstance(failed, Failed) and failed.code == "engine_failed" and "MachineFault" in failed.message
    heard = sink.tokens()
    assert heard == want[: len(heard)] and 5 <= len(sink.deltas()) <= 6  # a step that had begun may be whole
    assert run(engine, PROMPT, max_tokens=30).tokens() == want
