"""Sampling parameters at the door: every bad one by name, every legal extreme accepted."""

import math
from typing import Any

import pytest
from ultra_engine.errors import RequestError
from ultra_engine.request import MAX_SEED, SamplingParams

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("field", "values"),
    {
        "temperature": (NAN, INF, -INF, -0.1, 101, "hot", True, None),
        "top_p": (NAN, 0, -0.5, 1.5, INF),
        "top_k": (-7, 1.5, NAN, True, 2**31),
        "min_p": (NAN, -1, 2),
        "seed": (-1, MAX_SEED + 1, 1.5, "x"),
        "repetition_penalty": (NAN, 0, -1, 11),
        "presence_penalty": (NAN, INF, 11),
        "frequency_penalty": (NAN, -11),
        "stop": (("",), ("a", 1), tuple(str(i) for i in range(65))),
        "logit_bias": ({5: NAN}, {-1: 1.0}, {100: 1.0}, {"x": 1.0}, {5: 1e9}),
    }.items(),
)
def test_a_bad_value_is_refused_by_name(field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        if field == "seed" and value is None:
            continue
        with pytest.raises(RequestError, match=field) as caught:
            SamplingParams(**{field: value}).validate(vocab_size=100)
        assert caught.value.param == field


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=1e-6, top_p=1e-9, top_k=1, min_p=1, seed=MAX_SEED),
        SamplingParams(temperature=100, top_k=2**31 - 1, repetition_penalty=10, presence_penalty=-10),
        SamplingParams(stop=("a",) * 64, logit_bias={0: -1000, 99: 1000}, seed=0),
    ],
)
def test_legal_extremes_are_accepted(params: SamplingParams) -> None:
    params.validate(vocab_size=100)
