"""The machine draws the very tokens that `sampling.draw` does, over thousands of draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_kernels.builder import Builder
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.formats import FORMATS
from ultra_kernels.program import Attributes, Kind, Op
from ultra_kernels.sampling import BadLogits, Draw, draw
from ultra_kernels.step import NOT_NUMBERS, Packed, Sizes, Step, Stream, Took

ROWS = 64


class Drawer:
    """A program that draws and does little else: the logits are put where its head would put them."""

    def __init__(self, vocabulary: int, threads: int = 2) -> None:
        b = Builder()
        embed = {
            "table": b.weight("embed", vocabulary, 1),
            "tokens": b.input("tokens", "rows"),
            "x": b.activation("x", "rows", 1),
        }
        b.node(Op.EMBED, 1, embed, Attributes())
        for name in ("positions", "sequences", "out_rows"):
            b.input(name, "rows")
        b.input("block_table", "sequences", "table")
        b.sample(b.buffer("logits", Kind.OUTPUT, "outputs", vocabulary))
        table = Packed(FORMATS["f32"], torch.zeros(vocabulary, 4, dtype=torch.uint8))
        self.executor = CpuExecutor(b.build(4), {"embed": table}, Sizes(ROWS, 4), threads)
        self.executor._room = np.empty(ROWS * vocabulary, dtype=np.float32)

    def __call__(self, logits: np.ndarray, draws: Sequence[Draw]) -> list[int]:
        """One token for each row of logits [rows, vocabulary], at most 64."""
        rows = len(draws)
        self.executor._room[: logits.size] = logits.ravel()
        heard: list[Sequence[Took]] = []
        step = Step([0] * rows, [0] * rows, [0] * rows, [[0]], range(rows))
        self.executor.generate(step, [Stream(how) for how in draws], lambda took: not heard.append(took))
        [took] = heard
        return [token for each in took for token in each.tokens]


def want(logits: np.ndarray, draws: Sequence[Draw]) -> list[int]:
    return [draw(row, how) for row, how in zip(logits, draws, strict=True)]


def some_draw(rng: np.random.Generator, vocabulary: int) -> Draw:
    """Every filter on or off, every kind of history, temperatures from greedy to flat."""
    tokens = lambda most: rng.integers(0, vocabulary, rng.integers(0, most)).tolist()  # noqa: E731
    pick = rng.choice
    return Draw(
        seed=int(rng.integers(0, 2**64, dtype=np.uint64)),
        position=int(rng.integers(0, 2**31)),
        temperature=float(pick([0.0, 1e-3, 0.01, 0.3, 0.7, 1.0, 1.5, 20.0, 100.0])),
        top_k=int(pick([0, 0, 1, 2, 5, 40, 1000, 10**9])),
        top_p=float(pick([1.0, 1.0, 1e-9, 0.1, 0.5, 0.9, 0.95, 0.9999, 1 - 2**-53])),
        min_p=float(pick([0.0, 0.0, 1e-6, 0.02, 0.3, 1.0])),
        repetition_penalty=float(pick([1.0, 1.0, 1.1, 0.5, 10.0])),
        presence_penalty=float(pick([0.0, 0.0, 0.7, -2.0])),
        frequency_penalty=float(pick([0.0, 0.0, 0.3, -0.1])),
        logit_bias={token: float(rng.normal(0, 5)) for token in (tokens(5) if rng.random() < 0.3 else ())},
        prompt=tokens(50),
        output=tokens(50),
    )


@pytest.mark.parametrize("vocabulary", [1, 2, 15, 16, 17, 300, 4099, 20_011])
def test_tokens_are_those_of_the_definition(vocabulary: int) -> None:
    """Smooth logits, logits with many ties, and logits most of which are ruled out."""
    rng, drawer = np.random.default_rng(vocabulary), Drawer(vocabulary)
    for _ in range(3 if vocabulary > 1000 else 8):
        for tied in (False, True):
            logits = rng.normal(0, 3, (ROWS, vocabulary)).astype(np.float32)
            if tied:
                logits = logits.round(0)
            logits[ROWS // 2 :][rng.random((ROWS // 2, vocabulary)) < 0.9] = -np.inf
            logits[:, rng.integers(vocabulary)] = 0.25
            draws = [some_draw(rng, vocabulary) for _ in range(ROWS)]
            tokens = drawer(logits, draws)
            assert tokens == want(logits, draws)
            alone = zip(logits[:8], draws[:8], strict=True)
            assert tokens[:8] == [drawer.executor.draw(row, how) for row, how in alone]


@pytest.fixture(scope="module")
def drawer() -> Drawer:
    return Drawer(25)


@given(
    logits=st.lists(st.sampled_from([-np.inf, -3.0, -1.0, 0.0, 0.5, 2.0]), min_size=24, max_size=24),
    top_k=st.integers(0, 26),
    top_p=st.sampled_from([1e-9, 0.25, 0.3, 0.5, 0.75, 0.77, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.4, 1.0]),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=200, deadline=None)
def test_ties_fall_to_the_lower_token(
    drawer: Drawer, logits: list[float], top_k: int, top_p: float, min_p: float, seed: int
) -> None:
    """Sums of masses that meet top-p exactly: 1 of 4 equal tokens, 3 of 10."""
    row = np.array([[*logits, 2.0]] * 8, dtype=np.float32)
    hows = [Draw(seed, i, 1.0 + 9.0 * (i % 2), top_k, top_p, min_p) for i in range(8)]
    assert drawer(row, hows) == want(row, hows)


def test_all_tokens_equal() -> None:
    """A flat distribution is the worst for every shortcut."""
    logits = np.full((16, 5000), 1.5, dtype=np.float32)
    hows = [
        Draw(i, i, 1.0, top_k, top_p)
        for i, (top_k, top_p) in enumerate([(0, 1), (0, 0.5), (0, 0.95), (2500, 1), (2500, 0.3)] * 3)
    ]
    assert Drawer(5000)(logits[:15], hows) == want(logits[:15], hows)


def test_exactly_half_of_many_equal_tokens() -> None:
    """Top-p met to the last unit of mass: one token too many would be drawn once in 66."""
    drawer, logits = Drawer(130), np.zeros((ROWS, 130), dtype=np.float32)
    for start in range(0, 16 * ROWS, ROWS):
        hows = [Draw(3, start + row, 1.0, top_p=0.5) for row in range(ROWS)]
        tokens = drawer(logits, hows)
        assert tokens == want(logits, hows) and max(tokens) < 65


def test_of_equal_tokens_far_apart_the_first_is_greedy() -> None:
    logits = np.zeros((4, 20_000), dtype=np.float32)
    for row, places in enumerate([(4095, 4096), (5000, 9000), (19_999,)], start=1):
        logits[row, list(places)] = 1.0
    assert Drawer(20_000)(logits, [Draw()] * 4) == [0, 4095, 5000, 19_999]


def test_one_token_left() -> None:
    logits = np.full((3, 1000), -np.inf, dtype=np.float32)
    logits[:, 777] = -5.0
    hows = [Draw(), Draw(temperature=50.0), Draw(temperature=1.0, top_k=5, top_p=0.5, min_p=0.5)]
    assert Drawer(1000)(logits, hows) == [777] * 3


@pytest.mark.parametrize("size", [3, 16, 40])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_give_no_token(size: int, bad: float) -> None:
    """Wherever it stands, and for that row alone."""
    drawer, hows = Drawer(size), [Draw(), Draw(temperature=1.0), Draw(logit_bias={0: 1.0}), Draw()]
    for place in range(size):
        logits = np.zeros((4, size), dtype=np.float32)
        logits[:3, place] = bad
        assert drawer(logits, hows) == [NOT_NUMBERS] * 3 + [0]
        with pytest.raises(BadLogits):
            draw(logits[0], Draw())
        with pytest.raises(BadLogits):
            drawer.executor.draw(logits[0], Draw())
    assert drawer(np.full((4, size), -np.inf, dtype=np.float32), hows) == [NOT_NUMBERS] * 4


@pytest.mark.parametrize(
    "how", [Draw(logit_bias={5: 1.0}), Draw(prompt=[-1]), Draw(output=[5], presence_penalty=1.0)]
)
def test_a_token_outside_the_vocabulary_is_refused(how: Draw) -> None:
    drawer, logits = Drawer(5), np.zeros((1, 5), dtype=np.float32)
    with pytest.raises(ValueError, match="out of range"):
        drawer(logits, [how])
    with pytest.raises(ValueError, match="out of range"):
        drawer.executor.draw(logits[0], how)
