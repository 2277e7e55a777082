"""The threads: they stop when asked, cost nothing when idle, and go when their executor goes."""

import os
import threading
import time
from pathlib import Path

import pytest
import torch
from kernels.cpu.quantised_program import build, steps_of, weights
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.cpu.processors import default_threads
from ultra_kernels.step import Sizes, Step, Stopped

SIZES = Sizes(rows=512, blocks=64)
LONG = Step([5] * 512, range(512), [0] * 512, [range(32)], [511])


def _executor(threads: int = 2, tiles: int = 8, wide: int = 512) -> CpuExecutor:
    program = build(tiles, wide=wide)
    return CpuExecutor(program, weights(program, "q4_k"), SIZES, threads)


def test_a_stop_before_the_step_is_seen() -> None:
    executor = _executor()
    with pytest.raises(Stopped):
        executor.run(LONG, lambda: True)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_stop_within_the_step_is_seen(threads: int) -> None:
    """Polled again after the first milliseconds; what comes next is as if nothing had happened."""
    executor = _executor(threads, tiles=64, wide=8192)
    want = executor.run(LONG)
    polls = iter([False] + [True] * 1000)
    with pytest.raises(Stopped):
        executor.run(LONG, lambda: next(polls))
    for _ in range(3):
        assert torch.equal(executor.run(LONG), want)


def test_an_error_of_the_stop_function_comes_out() -> None:
    executor = _executor(tiles=64, wide=8192)
    polls = iter([False])
    with pytest.raises(StopIteration):
        executor.run(LONG, lambda: next(polls))
    assert executor.run(LONG).isfinite().all()


def test_python_runs_during_a_step() -> None:
    executor = _executor(1, tiles=64, wide=8192)
    counted, done = [], threading.Event()

    def count() -> None:
        while not done.is_set():
            counted.append(1)
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = len(counted)
    executor.run(LONG)
    during = len(counted) - before
    done.set()
    thread.join()
    assert during > 10


def test_idle_threads_use_no_processor() -> None:
    executor = _executor(4)
    executor.run(steps_of([1, 2, 3])[0])
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_threads_end_with_their_executor() -> None:
    _executor(2).run(steps_of([1])[0])
    before = _threads()
    for number in range(40):
        executor = _executor(4)
        executor.run(steps_of([1, 2])[0])
        if number % 2:
            executor.close()
            executor.close()
        del executor
    assert _threads() <= before


def test_more_threads_than_processors_and_tasks() -> None:
    want = _executor(1, tiles=1).run(steps_of([1, 2, 3])[0])
    executor = _executor(16, tiles=1)
    for _ in range(50):
        assert torch.equal(executor.run(steps_of([1, 2, 3])[0]), want)


def test_many_short_steps_with_pauses() -> None:
    """Threads that have just parked, are parking or are spinning all see the next step."""
    executor = _executor(3, tiles=3)
    want = executor.run(steps_of([1])[0])
    for number in range(300):
        if number % 3 == 0:
            time.sleep(number % 7 * 0.001)
        assert torch.equal(executor.run(steps_of([1])[0]), want)


def test_the_default_is_every_processor_of_the_process() -> None:
    assert 1 <= default_threads() <= (os.cpu_count() or 1)
