"""Which executor runs, and that the CPU machine serves a real model as the reference does."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from engine.collect import run, same_bits_whatever_ran_before
from ultra_engine import executors
from ultra_engine.engine import Engine
from ultra_engine.errors import ModelError
from ultra_engine.model import Model
from ultra_engine.request import Done
from ultra_engine.weights.hub import resolve
from ultra_engine.weights.registry import TEST_MODEL
from ultra_kernels.cpu import abi
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.program import BLOCK
from ultra_kernels.step import Step

TEXT = (
    "The water cycle moves water between the sea, the air and the land. The sun warms the sea, water rises "
    "as vapour, cools, and forms clouds. Rain and snow fall on the hills, rivers carry the water back to the "
    "sea, and the cycle begins again."
)


def _built() -> bool:
    try:
        return bool(abi.level())
    except abi.LibraryUnavailable:
        return False


built = pytest.mark.skipif(not _built(), reason="the CPU machine is not built")


@pytest.fixture
def unbuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    def level() -> str:
        raise abi.LibraryUnavailable("the CPU machine is not built (to build it: make)")

    monkeypatch.setattr(executors, "level", level)
    executors._say_slow.cache_clear()


@built
def test_the_choice() -> None:
    assert executors.choose("auto", None) == executors.choose("cpu", None) == "cpu"
    assert executors.choose("auto", "float32") == executors.choose("reference", None) == "reference"
    with pytest.raises(ModelError, match="--executor reference"):
        executors.choose("cpu", "float32")


def test_without_the_library_it_says_so_once(unbuilt: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert [executors.choose("auto", None) for _ in range(2)] == ["reference"] * 2
    assert capsys.readouterr().err == (
        "ultra: running on the slow reference executor: the CPU machine is not built (to build it: make)\n"
    )
    with pytest.raises(ModelError, match="not built"):
        executors.choose("cpu", None)


@built
@pytest.mark.parametrize("executor", ["cpu", "reference"])
def test_weights_that_do_not_fit_are_refused_before_they_are_copied(
    qwen2: Path, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Little:
        available = 1000

    monkeypatch.setattr(executors.psutil, "virtual_memory", Little)
    with pytest.raises(ModelError, match="GB of memory, 0.0 GB are free; try a smaller model"):
        Engine.open(str(qwen2), executor=executor)


@built
@pytest.mark.parametrize("threads", [0, -3, 5000])
def test_a_number_of_threads_that_makes_no_sense_is_refused(qwen2: Path, threads: int) -> None:
    for executor in ("cpu", "reference"):
        with pytest.raises(ModelError, match=f"threads must be 1 to 1024, not {threads}"):
            Engine.open(str(qwen2), executor=executor, threads=threads)


@built
def test_pinning_is_the_machines_and_linuxs(qwen2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="leave out --pin"):
        Engine.open(str(qwen2), executor="reference", pin=True)
    places = []
    for pin, variable in ((False, "0"), (True, ""), (False, "1")):
        monkeypatch.setenv("ULTRA_PIN", variable)
        model = Model.load(qwen2, executor="cpu", threads=2, pin=pin)
        assert isinstance(model._executor, CpuExecutor)
        places.append(len(model._executor._cpus))
        model.close()
    assert places[0] == 0 < places[1] == places[2]
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    with pytest.raises(ModelError, match="on Linux alone: leave out --pin and ULTRA_PIN"):
        Model.load(qwen2, executor="cpu", threads=2)


@built
def test_it_serves_and_names_itself(qwen2: Path) -> None:
    with Engine.open(str(qwen2), executor="cpu", threads=2) as engine:
        assert engine.info.executor == "cpu"
        first = run(engine, temperature=1.0, seed=7, max_tokens=20)
        run(engine, "something else entirely", max_tokens=9)
        assert run(engine, temperature=1.0, seed=7, max_tokens=20).tokens() == first.tokens()


@built
def test_every_token_that_is_shared_is_used_again(qwen2: Path) -> None:
    with Engine.open(str(qwen2), executor="cpu", threads=2) as engine:
        run(engine, "a shared beginning, then one", max_tokens=4)
        done = run(engine, "a shared beginning, then two", max_tokens=4).wait()
        assert isinstance(done, Done) and done.stats.cached_tokens == len("a shared beginning, then ")


@built
def test_logits_are_the_same_bits_whatever_ran_before(qwen2: Path) -> None:
    model = Model.load(qwen2, executor="cpu", threads=2)
    same_bits_whatever_ran_before(model)
    model.close()


def _losses(executor: str, precision: str | None) -> tuple[np.ndarray, list[int]]:
    """What every token of TEXT costs (nats), and the model's favourites."""
    model = Model.load(resolve(TEST_MODEL), context=256, executor=executor, precision=precision)
    ids = model.tokenizer.encode(TEXT)
    rows = len(ids)
    step = Step(ids, range(rows), [0] * rows, [range(-(-rows // BLOCK))], range(rows))
    logits = model._executor.run(step)
    model.close()
    losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
    return losses.numpy(), logits.argmax(-1).tolist()


@built
def test_a_real_model_loses_next_to_nothing() -> None:
    """Activations in int8 and KV in float16 against the float32 definition: the perplexity within 3 %, and
    another favourite for at most one token in ten."""
    got, favourites = _losses("cpu", None)
    want, exact = _losses("reference", "float32")
    assert abs(float(np.exp(got.mean() - want.mean())) - 1) < 0.03
    assert np.mean(np.array(favourites) != exact) < 0.1
