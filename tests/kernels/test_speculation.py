"""Drafts change how fast a text comes, and nothing of the text: on both executors, greedy and sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.small_program import VOCAB, build, weights
from kernels.test_rounds import SAMPLED, SIZES, generate, prompts_step
from ultra_kernels.cpu import abi
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.drafting import Drafting
from ultra_kernels.policy import StepTimes
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.rounds import Rounds
from ultra_kernels.sampling import Draw
from ultra_kernels.step import Executor, Step, Stream, Took

FREE = StepTimes(np.array([0.0, *(1.0 + rows / 1000 for rows in range(SIZES.rows))]), fixed=True)
"""Rows that cost next to nothing: every draft is tried."""


@cache
def make(name: str) -> Executor:
    program = build(4)
    if name == "reference":
        return ReferenceExecutor(program, weights(program), SIZES)
    try:
        abi.level()
    except abi.LibraryUnavailable as error:
        pytest.skip(str(error))
    executor = CpuExecutor(program, weights(program), SIZES, 2)
    executor.times = FREE
    return executor


@pytest.fixture(params=["reference", "cpu"])
def executor(request: pytest.FixtureRequest) -> Executor:
    return make(str(request.param))


def streams_of(
    prompts: Sequence[Sequence[int]],
    hows: Sequence[Draw],
    tokens: int,
    ends: Sequence[int] = (),
    most: int = 0,
) -> list[Stream]:
    return [
        Stream(
            replace(how, position=len(prompt), prompt=prompt),
            ends,
            tokens,
            Drafting(prompt, most=most) if most else None,
        )
        for prompt, how in zip(prompts, hows, strict=True)
    ]


HOWS = [
    Draw(),
    Draw(temperature=1.0, seed=4),
    SAMPLED,
    Draw(frequency_penalty=0.4, temperature=0.2),
    Draw(min_p=0.3, temperature=2.0),
]


@pytest.mark.parametrize("most", [3, 7, 15])
@pytest.mark.parametrize("how", HOWS)
def test_the_text_is_the_same(executor: Executor, how: Draw, most: int) -> None:
    for prompt in ([3, 7, 7, 49, 3, 7], [1, 2, 3], [5] * 9):
        want = generate(executor, prompts_step([prompt]), streams_of([prompt], [how], 30))
        assert generate(executor, prompts_step([prompt]), streams_of([prompt], [how], 30, most=most)) == want


@given(
    prompts=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=9), min_size=1, max_size=4),
    most=st.lists(st.integers(0, 9), min_size=4, max_size=4),
    tokens=st.integers(1, 24),
    ends=st.sets(st.integers(0, VOCAB - 1), max_size=4),
    shift=st.integers(0, 4),
)
@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_streams_that_draft_and_streams_that_do_not(
    name: str, prompts: list[list[int]], most: list[int], tokens: int, ends: set[int], shift: int
) -> None:
    executor = make(name)
    hows = [HOWS[(i + shift) % len(HOWS)] for i in range(len(prompts))]
    plain = streams_of(prompts, hows, tokens, sorted(ends))
    drafting = [
        replace(stream, drafting=Drafting(prompt, most=count) if count else None)
        for stream, prompt, count in zip(plain, prompts, most, strict=False)
    ]
    step = prompts_step(prompts)
    assert generate(executor, step, drafting) == generate(executor, step, plain)


class Scripted:
    """Draws what a text says, whatever is asked: the rounds themselves are under test."""

    def __init__(
        self, text: Sequence[int], history: Sequence[int], most: int, times: StepTimes = FREE
    ) -> None:
        self._text, self._start = text, len(history)
        stream = Stream(Draw(), tokens=len(text), drafting=Drafting(history, most=most))
        step = Step([history[-1]], [len(history) - 1], [0], [range(8)], [0])
        self.rounds = Rounds(step, [stream], 1000, times, 40)

    def run(self) -> list[Took]:
        took: list[Took] = []
        while not self.rounds.over:
            step = self.rounds.step
            behind = [position + 1 - self._start for position in step.positions]
            drawn = [self._text[at] if at < len(self._text) else 0 for at in behind]
            took += self.rounds.take(drawn)
        return took


def test_a_copy_comes_in_whole_blocks() -> None:
    text = list(range(100, 132))
    # Two tokens find the source; of what follows them a few are tried first, then as many as may be.
    took = Scripted(text[2:], [*text, 1, *text[:2]], most=7).run()
    assert [token for each in took for token in each.tokens] == text[2:]
    assert [len(each.tokens) for each in took] == [6, 8, 8, 8]


def test_a_changed_token_costs_one_round() -> None:
    source = list(range(100, 140))
    text = [*source[:10], 999, *source[11:]]
    took = Scripted(text[2:], [*source, 1, *text[:2]], most=7).run()
    assert [token for each in took for token in each.tokens] == text[2:]
    assert len(took) == 6


def test_dear_rows_are_not_drafted() -> None:
    text = list(range(100, 132))
    dear = StepTimes(np.arange(0.0, 41.0) * 2, fixed=True)
    took = Scripted(text[2:], [*text, 1, *text[:2]], 7, dear).run()
    assert [each.drafted for each in took] == [0] * 30


def test_the_executors_draft_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drafts themselves, not only what comes of them: the same rounds, slot by slot."""
    reference, cpu, drafted = make("reference"), make("cpu"), 0
    monkeypatch.setattr(StepTimes, "empty", classmethod(lambda cls, rows: FREE))
    for prompt in ([3, 7, 7, 49, 3, 7, 7], [5] * 9, [1, 2, 1, 2, 1, 9, 1, 2]):
        for how in HOWS[:3]:
            rounds: dict[str, list[Sequence[Took]]] = {}
            for name, executor in {"reference": reference, "cpu": cpu}.items():
                heard: list[Sequence[Took]] = []
                streams = streams_of([prompt], [how], 40, most=11)
                executor.generate(
                    prompts_step([prompt], 60), streams, lambda took, to=heard: not to.append(took)
                )
                rounds[name] = [[Took(list(each.tokens), each.drafted) for each in took] for took in heard]
            assert rounds["reference"] == rounds["cpu"]
            drafted += sum(took.drafted for [took] in rounds["cpu"])
    assert drafted > 100


@pytest.mark.parametrize(
    ("drafting", "words"),
    [
        (Drafting([]), "history"),
        (Drafting([1, 2]), "history of a stream ends with"),
        (Drafting([VOCAB, 3]), "out of range"),
        (Drafting([2, 3], [[-1]]), "out of range"),
        (Drafting([2, 3], most=-1), "a block of -1"),
    ],
)
def test_bad_histories_are_refused(executor: Executor, drafting: Drafting, words: str) -> None:
    stream = Stream(Draw(), tokens=3, drafting=drafting)
    with pytest.raises(ValueError, match=words):
        executor.generate(prompts_step([[1, 2, 3]]), [stream], lambda took: True)


def test_texts_of_others_are_drafted_from(executor: Executor) -> None:
    [text] = generate(executor, prompts_step([[1, 2, 3]]), [Stream(Draw(), tokens=30)])
    heard: list[Sequence[Took]] = []
    stream = Stream(Draw(), tokens=30, drafting=Drafting([1, 2, 3], [[1, 2, 3, *text]], 7))
    executor.generate(prompts_step([[1, 2, 3]]), [stream], lambda took: not heard.append(took))
    assert [token for [took] in heard for token in took.tokens] == text
    if isinstance(executor, CpuExecutor):
        assert len(heard) <= 6
