"""A thread that throws, any number of threads, and where they may run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from kernels.cpu.quantised_program import build, steps_of, weights
from ultra_kernels.cpu.executor import MAX_THREADS, CpuExecutor, MachineFault
from ultra_kernels.program import Op, Word
from ultra_kernels.sampling import Draw
from ultra_kernels.step import Sizes, Step, Stream

SIZES = Sizes(rows=64, blocks=16)
TOKENS = [3, 7, 7, 49, 0, 12, 31, 5, 5, 18, 22, 9]
FAULT = 255
"""The library's op that throws (``src/layout.h``): no memory if its tile starts at 0, else another error."""


def _executor(threads: int | None, tiles: int = 8, pin: bool = False) -> CpuExecutor:
    program = build(tiles)
    return CpuExecutor(program, weights(program, "q4_k"), SIZES, threads, pin=pin)


def _generate(executor: CpuExecutor, count: int = 12) -> list[int]:
    step, heard = Step([3], [0], [0], [[0, 1]], [0]), []

    def hear(tokens: Sequence[int]) -> bool:
        heard.extend(tokens)
        return True

    executor.generate(step, [Stream(Draw(temperature=2.0), tokens=count)], hear)
    return heard


@contextmanager
def _faulty(executor: CpuExecutor, task: int, kind: int) -> Iterator[None]:
    """One task of the machine's own list becomes the one that throws."""
    words = executor._tasks[task]
    before = words.copy()
    words[Word.OP], words[Word.START] = FAULT, kind
    try:
        yield
    finally:
        words[:] = before


def test_no_program_has_the_op_that_throws() -> None:
    assert FAULT not in list(Op)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("kind", "error"), [(0, MemoryError), (1, MachineFault)])
def test_a_task_that_throws_fails_the_step_alone(threads: int, kind: int, error: type[Exception]) -> None:
    """The process lives, the error is typed, and the next step is as if nothing had happened."""
    executor = _executor(threads)
    [step] = steps_of(TOKENS)
    want, text = executor.run(step), _generate(executor)
    for task in (0, 1, len(executor._tasks) // 2, len(executor._tasks) - 1):
        with _faulty(executor, task, kind):
            with pytest.raises(error):
                executor.run(step)
            with pytest.raises(error):
                _generate(executor)
        assert torch.equal(executor.run(step), want) and _generate(executor) == text


def test_every_task_may_throw_at_once() -> None:
    executor = _executor(4)
    [step] = steps_of(TOKENS)
    want, before = executor.run(step), executor._tasks.copy()
    executor._tasks[:, Word.OP] = FAULT
    for _ in range(20):
        with pytest.raises((MemoryError, MachineFault)):
            executor.run(step)
    executor._tasks[:] = before
    assert torch.equal(executor.run(step), want)


def test_the_error_says_what_was_thrown() -> None:
    executor = _executor(2)
    with _faulty(executor, 3, 1), pytest.raises(MachineFault, match="a fault on purpose"):
        executor.run(steps_of(TOKENS)[0])


def test_many_more_threads_than_processors() -> None:
    """The same bits and the same tokens from 1 thread and from 64."""
    [step] = steps_of(TOKENS)
    one, many = _executor(1), _executor(64, tiles=64)
    want, text = one.run(step), _generate(one)
    for _ in range(5):
        assert torch.equal(many.run(step), want)
    assert _generate(many) == text


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads: int) -> None:
    with pytest.raises(ValueError, match=f"threads must be 1 to {MAX_THREADS}, not {threads}"):
        _executor(threads)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("pin", [False, True])
def test_threads_are_pinned_where_that_is_asked_for(pin: bool) -> None:
    """One processor each, in turn; the calling thread stays free, and so do the threads of the default."""
    free, before = os.sched_getaffinity(0), set(os.listdir("/proc/self/task"))
    executor = _executor(4, pin=pin)
    new = sorted(int(id) for id in os.listdir("/proc/self/task") if id not in before)
    places = [os.sched_getaffinity(id) for id in new]
    assert len(new) == 3 and os.sched_getaffinity(0) == free
    there = sorted(free)
    assert places == ([{there[i % len(there)]} for i in (1, 2, 3)] if pin else [free] * 3)
    assert executor.run(steps_of(TOKENS)[0]).isfinite().all()


def test_where_threads_cannot_be_pinned_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    with pytest.raises(ValueError, match="on Linux alone"):
        _executor(2, pin=True)
