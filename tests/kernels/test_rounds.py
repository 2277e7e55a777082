"""Many rounds in one call give what single steps give, on both executors, for many streams at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.small_program import VOCAB, build, weights
from ultra_kernels.cpu import abi
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.program import BLOCK
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.sampling import Draw, draw
from ultra_kernels.step import NOT_NUMBERS, Executor, Packed, Sizes, Step, Stopped, Stream, Took

SIZES = Sizes(rows=64, blocks=32, sequences=8)
SAMPLED = Draw(temperature=1.3, top_p=0.9, frequency_penalty=0.5, repetition_penalty=1.2, seed=5)


def _make(name: str, packed: dict[str, Packed] | None = None) -> Executor:
    program = build(4)
    if name == "reference":
        return ReferenceExecutor(program, packed or weights(program), SIZES)
    try:
        abi.level()
    except abi.LibraryUnavailable as error:
        pytest.skip(str(error))
    return CpuExecutor(program, packed or weights(program), SIZES, 2)


_shared = cache(_make)


@pytest.fixture(params=["reference", "cpu"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def executor(name: str) -> Executor:
    return _shared(name)


def prompts_step(prompts: Sequence[Sequence[int]], room: int = 40) -> Step:
    """One sequence for each prompt, each with blocks of its own for so many positions."""
    blocks = -(-room // BLOCK)
    ends = np.cumsum([len(prompt) for prompt in prompts])
    return Step(
        tokens=[token for prompt in prompts for token in prompt],
        positions=[i for prompt in prompts for i in range(len(prompt))],
        sequences=[i for i, prompt in enumerate(prompts) for _ in prompt],
        block_table=[range(i * blocks, (i + 1) * blocks) for i in range(len(prompts))],
        out_rows=[int(end) - 1 for end in ends],
    )


def generate(executor: Executor, step: Step, streams: Sequence[Stream]) -> list[list[int]]:
    """The tokens of each stream; that nothing follows its end is checked."""
    rounds: list[Sequence[Took]] = []
    executor.generate(step, streams, lambda took: not rounds.append(took))
    outputs: list[list[int]] = []
    for column in zip(*rounds, strict=True):
        counts = [len(took.tokens) for took in column]
        ended = counts.index(0) if 0 in counts else len(counts)
        assert not any(counts[ended:]) and not any(took.drafted for took in column[ended:])
        assert all(len(took.tokens) <= took.drafted + 1 for took in column)
        outputs.append([token for took in column for token in took.tokens])
    return outputs


def single_steps(executor: Executor, prompt: Sequence[int], stream: Stream) -> list[int]:
    """The same for one stream alone, a step and a draw at a time."""
    output: list[int] = []
    step = prompts_step([prompt])
    while True:
        logits = executor.run(step)[0].numpy()
        how = replace(stream.draw, position=stream.draw.position + len(output), output=output)
        output.append(draw(logits, how))
        if output[-1] in stream.ends or len(output) == stream.tokens:
            return output
        position = len(prompt) + len(output) - 1
        step = Step([output[-1]], [position], [0], step.block_table, [0])


@given(
    prompts=st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=7), min_size=1, max_size=6),
    counts=st.lists(st.integers(1, 14), min_size=6, max_size=6),
    ends=st.sets(st.integers(0, VOCAB - 1), max_size=4),
    hot=st.booleans(),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=8, deadline=None)
@pytest.mark.parametrize("name", ["reference", "cpu"])
def test_streams_together_are_each_what_it_is_alone(
    name: str, prompts: list[list[int]], counts: list[int], ends: set[int], hot: bool, seed: int
) -> None:
    """Every stream its own draw, its own end; streams leave at different times and the others go on."""
    executor = _shared(name)
    streams = []
    for i, prompt in enumerate(prompts):
        how = replace(SAMPLED, seed=(seed + i) % 2**64) if hot and i != 1 else Draw()
        streams.append(Stream(replace(how, position=len(prompt), prompt=prompt), ends, counts[i]))
    together = generate(executor, prompts_step(prompts), streams)
    alone = [single_steps(executor, *pair) for pair in zip(prompts, streams, strict=True)]
    assert together == alone


@pytest.mark.parametrize(
    "how",
    [
        Draw(repetition_penalty=1.4),
        Draw(repetition_penalty=0.7, temperature=2.0),
        Draw(presence_penalty=0.8),
        Draw(frequency_penalty=0.6),
        Draw(frequency_penalty=-0.3, temperature=1.5, logit_bias={4: 2.0}),
    ],
)
def test_penalties_follow_the_rounds(executor: Executor, how: Draw) -> None:
    """Each penalty alone: a token that was drawn in an earlier round counts."""
    prompt = [3, 7, 9]
    stream = Stream(replace(how, position=3, prompt=prompt), tokens=36)
    [tokens] = generate(executor, prompts_step([prompt]), [stream])
    assert tokens == single_steps(executor, prompt, stream)
    unpunished = replace(
        stream, draw=Draw(temperature=how.temperature, position=3, logit_bias=how.logit_bias)
    )
    assert tokens != single_steps(executor, prompt, unpunished)


def test_the_slots_of_a_block_are_drawn_each_for_itself(executor: Executor) -> None:
    """Verification of a draft: several rows of one sequence, one round; the KV of all of them is there."""
    first = [3, 7, 7, 49]
    stream = Stream(replace(SAMPLED, position=4, prompt=first), tokens=6)
    text = single_steps(executor, first, stream)
    draft = text[:3] + [(text[3] + 1) % VOCAB, 0]
    step = Step([*first, *draft], range(9), [0] * 9, [range(3)], range(3, 9))
    draws = [replace(stream.draw, position=4 + i, output=draft[:i]) for i in range(6)]
    [*slots] = generate(executor, step, [Stream(how) for how in draws])
    agreed = [token for [token] in slots]
    assert agreed[:4] == text[:4] and agreed[3] != draft[3]


def test_what_was_heard_can_end_it(executor: Executor) -> None:
    step, stream = prompts_step([[1, 2, 3]]), Stream(Draw(position=3), tokens=30)
    [want] = generate(executor, step, [stream])
    for count in (1, 2, 7, 30):
        heard: list[int] = []

        def hear(took: Sequence[Took], count: int = count, heard: list[int] = heard) -> bool:
            heard += took[0].tokens
            return len(heard) < count

        executor.generate(step, [stream], hear)
        assert heard == want[:count]


def test_a_stop_is_seen_between_rounds(executor: Executor) -> None:
    step, stream = prompts_step([[1, 2, 3]]), Stream(SAMPLED, tokens=30)
    heard: list[int] = []
    with pytest.raises(Stopped):
        executor.generate(
            step, [stream], lambda took: not heard.extend(took[0].tokens), lambda: len(heard) >= 4
        )
    assert len(heard) == 4
    assert heard == generate(executor, step, [stream])[0][:4]


def test_an_error_of_the_listener_comes_out(executor: Executor) -> None:
    step, stream = prompts_step([[1, 2, 3]]), Stream(Draw(), tokens=30)

    def hear(took: Sequence[Took]) -> bool:
        raise KeyError("listener")

    for _ in range(2):
        with pytest.raises(KeyError, match="listener"):
            executor.generate(step, [stream], hear)
    assert len(generate(executor, step, [stream])[0]) == 30


def test_rounds_are_heard_on_the_calling_thread(executor: Executor) -> None:
    names = set()

    def hear(took: Sequence[Took]) -> bool:
        names.add(threading.get_ident())
        return True

    executor.generate(prompts_step([[1]]), [Stream(Draw(), tokens=9)], hear)
    assert names == {threading.get_ident()}


def test_one_bad_stream_ends_alone(name: str) -> None:
    """Token 9 has an embedding of NaN: its stream is told so, the other goes on."""
    packed = weights(build())
    packed["embed"].data.view(torch.float32)[9] = torch.nan
    executor = _make(name, packed)
    streams = [Stream(Draw(logit_bias={9: -1000.0}), tokens=6), Stream(SAMPLED, tokens=6)]
    good, bad = generate(executor, prompts_step([[1, 2, 3], [4, 9]]), streams)
    assert bad == [NOT_NUMBERS] and len(good) == 6 and NOT_NUMBERS not in good


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda step, streams: (step, streams[:1]), "1 streams for 2 rows"),
        (lambda step, streams: (replace(step, out_rows=[]), []), "0 (streams|rows)"),
        (lambda step, streams: (step, [streams[0], replace(streams[1], tokens=0)]), "a stream of 0 tokens"),
        (lambda step, streams: (step, [streams[0], replace(streams[1], tokens=49)]), "hold 48 positions"),
        (lambda step, streams: (replace(step, out_rows=[0, 4]), streams), "row 0 cannot go on"),
        (lambda step, streams: (replace(step, out_rows=[4, 4]), streams), "row 4 cannot go on"),
        (lambda step, streams: (step, [Stream(Draw(logit_bias={VOCAB: 1.0}))] * 2), "out of range"),
    ],
)
def test_streams_that_do_not_fit_are_refused(
    executor: Executor, change: Callable[..., tuple[Step, list[Stream]]], words: str
) -> None:
    step, streams = change(prompts_step([[1, 2, 3], [4, 5]]), [Stream(Draw(), tokens=3)] * 2)
    with pytest.raises(ValueError, match=words):
        executor.generate(step, streams, lambda took: True)


def test_the_last_position_of_the_last_block_is_used(executor: Executor) -> None:
    step = prompts_step([[1, 2, 3]])
    [tokens] = generate(executor, step, [Stream(Draw(), tokens=48 - 2)])
    assert len(tokens) == 46
