"""The MXFP4 encoder, held to a reference in exact fractions."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from ultra_engine.convert.mxfp4 import Loss, NotFinite, Scale, encode
from ultra_kernels.packing import mxfp4_from_pairs

MAGNITUDES = [Fraction(n, 2) for n in (0, 1, 2, 3, 4, 6, 8, 12)]
SCALES: list[Scale] = ["max", "mse"]


def nearest(quotient: Fraction) -> int:
    """The code of the magnitude nearest to ``quotient`` >= 0; of two as near, the even code."""
    return min(range(8), key=lambda code: (abs(MAGNITUDES[code] - quotient), code % 2))


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def error(group: list[Fraction], exponent: int) -> Fraction:
    units = [abs(w) / power(exponent) for w in group]
    return sum(((MAGNITUDES[nearest(u)] - u) ** 2 for u in units), Fraction(0)) * power(exponent) ** 2


def of_max(group: list[Fraction]) -> int:
    """floor(log2(largest)) - 2, in the range of E8M0."""
    largest = max(map(abs, group))
    exponent = 130
    while exponent > -127 and power(exponent + 2) > largest:
        exponent -= 1
    return exponent


def decode(weight: Tensor, scale: Tensor) -> list[list[float]]:
    """By the words of the format: low half first, 2^(scale - 127)."""
    signed = [float(m) for m in MAGNITUDES] + [-float(m) for m in MAGNITUDES]
    return [
        [
            signed[byte >> half & 15] * 2.0 ** (powers[j // 16] - 127)
            for j, byte in enumerate(row)
            for half in (0, 4)
        ]
        for row, powers in zip(weight.tolist(), scale.tolist(), strict=True)
    ]


def check(weights: Tensor, scale: Scale) -> None:
    """One row of groups: right scale, right codes, right account of the loss."""
    encoded = encode(weights, scale)
    assert encoded.weight.shape == (1, weights.shape[1] // 2)
    assert encoded.scale.shape == (1, weights.shape[1] // 32)
    codes = [byte >> half & 15 for byte in encoded.weight[0].tolist() for half in (0, 4)]
    row = [Fraction(w) for w in weights[0].tolist()]
    errors, furthest = Fraction(0), Fraction(0)
    for number, code in enumerate(encoded.scale[0].tolist()):
        at = slice(number * 32, number * 32 + 32)
        group, exponent = row[at], code - 127
        expected = of_max(group)
        if scale == "max":
            assert exponent == expected
        else:
            # Among all powers: far ones lose more and more, so some around are all.
            tried = [e for e in range(expected - 4, expected + 5) if -127 <= e <= 127]
            best = min(error(group, e) for e in tried)
            assert error(group, exponent) <= best * (1 + Fraction(1, 10**12))
            assert exponent == expected or error(group, expected) > best
        units = [abs(w) / power(exponent) for w in group]
        assert [c & 7 for c in codes[at]] == [nearest(u) for u in units]
        signs = [math.copysign(1, w) < 0 for w in weights[0, at].tolist()]
        assert [bool(c & 8) for c in codes[at]] == signs
        errors += error(group, exponent)
        furthest = max(furthest, *(abs(MAGNITUDES[nearest(u)] - u) * power(exponent) for u in units))
    assert encoded.loss.weights == len(row)
    assert encoded.loss.squares == pytest.approx(float(sum(w * w for w in row)), rel=1e-9)
    assert encoded.loss.errors == pytest.approx(float(errors), rel=1e-9)
    assert encoded.loss.largest == pytest.approx(float(furthest), rel=1e-6)


def row(values: list[float], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor([values + [0.0] * (-len(values) % 32)], dtype=dtype)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("exponent", [-127, -126, -60, -3, 0, 1, 40, 125])
def test_every_midpoint_and_its_neighbours(scale: Scale, exponent: int) -> None:
    """With 6 in the group, so that the unit is known; the neighbours are the next float32 on either side."""
    unit = torch.tensor(2.0, dtype=torch.float64).pow(exponent).float()
    midpoints = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]) * unit
    near = [torch.nextafter(midpoints, midpoints * k) for k in (0.0, 2.0)]
    values = torch.cat((midpoints, *near, -midpoints, torch.tensor([6.0, 0.0, -0.0]) * unit))
    check(row(values.tolist()), scale)


@pytest.mark.parametrize("scale", SCALES)
def test_every_bfloat16_of_one_binade_above_the_largest_magnitude(scale: Scale) -> None:
    for largest in [4.0, 5.0, 6.0, 6.97, 7.0, 7.03125, 7.5, 7.96875]:
        values = [v / 16 for v in range(-28, 0)] + [largest, -0.3, 2.6]
        check(row(values, torch.bfloat16), scale)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "values",
    [[0.0], [2.0**-149], [2.0**-126 * 1.7, -(2.0**-130), 2.0**-149], [2.0**-125, 2.0**-127 * 5]]
    + [[3.4028234663852886e38, 1e38, -3e38, 1e-38], [1.0] + [1e-30] * 31, [-0.0] * 32],
)
def test_the_ends_of_the_range(scale: Scale, values: list[float]) -> None:
    check(row(values), scale)


numbers = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(-8, 8, width=32),
    st.sampled_from([float(m) * s for m in MAGNITUDES for s in (1, -1, 0.5, 2)]),
    st.sampled_from([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, 7.5]),
)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(numbers, min_size=32, max_size=32), scale=st.sampled_from(SCALES))
def test_any_group(values: list[float], scale: Scale) -> None:
    check(row(values), scale)


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(
        st.sampled_from([4.0, 4.2, 6.5, 7.2, 7.9] + [0.25, 0.75] * 9 + [1.25] * 3), min_size=32, max_size=32
    )
)
def test_groups_where_another_power_is_better(values: list[float]) -> None:
    check(row(values), "mse")


def test_each_neighbour_wins_somewhere() -> None:
    """The groups for which the two ways differ exist in both directions."""
    higher = encode(row([7.9] * 32), "mse").scale[0, 0] - encode(row([7.9] * 32), "max").scale[0, 0]
    one = [4.0] + [0.25] * 31
    lower = int(encode(row(one), "mse").scale[0, 0]) - int(encode(row(one), "max").scale[0, 0])
    assert (int(higher), lower) == (1, -1)


@pytest.mark.parametrize("scale", SCALES)
def test_what_was_mxfp4_comes_back(scale: Scale) -> None:
    """All pairs of codes under all scales that float32 can have the products of."""
    weight = torch.arange(256, dtype=torch.uint8).repeat(252)[None].reshape(252, 256)
    powers = torch.arange(1, 253, dtype=torch.uint8)[:, None].expand(252, 16).contiguous()
    packed = mxfp4_from_pairs(weight, powers)
    values = packed.format.rows(packed.data)
    encoded = encode(values, scale)
    again = mxfp4_from_pairs(encoded.weight, encoded.scale)
    assert torch.equal(again.format.rows(again.data).view(torch.int32), values.view(torch.int32))
    assert encoded.loss.errors == 0 and encoded.loss.largest == 0 and encoded.loss.relative_rms == 0
    assert decode(encoded.weight, encoded.scale) == values.tolist()


def test_mse_never_loses_more_than_max() -> None:
    generator = torch.Generator().manual_seed(5)
    for weights in (
        torch.randn(64, 256, generator=generator),
        torch.randn(64, 256, generator=generator) ** 3,
    ):
        lost = {scale: encode(weights, scale).loss for scale in SCALES}
        assert lost["mse"].errors < lost["max"].errors
        assert lost["mse"].squares == lost["max"].squares


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_do_not_depend_on_each_other(dtype: torch.dtype) -> None:
    """Also across the steps in which large matrices are done."""
    weights = torch.randn(40, 32 * 640, generator=torch.Generator().manual_seed(1)).to(dtype)
    with ThreadPoolExecutor(3) as pool:
        whole = encode(weights, pool=pool)
    assert whole.loss == encode(weights).loss
    for at in (0, 24, 25, 26, 39):
        alone = encode(weights[at : at + 1])
        assert torch.equal(alone.weight[0], whole.weight[at]) and torch.equal(alone.scale[0], whole.scale[at])


def test_a_matrix_that_is_not_contiguous() -> None:
    weights = torch.randn(96, 64, generator=torch.Generator().manual_seed(2))
    assert torch.equal(encode(weights.T).weight, encode(weights.T.contiguous()).weight)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused(value: float) -> None:
    with pytest.raises(NotFinite):
        encode(row([1.0] * 33 + [value]))


def test_columns_come_in_groups() -> None:
    with pytest.raises(ValueError, match="32, which does not divide 48 columns"):
        encode(torch.zeros(2, 48))


def test_losses_add_up() -> None:
    total = Loss(2, 8.0, 0.5, 0.25) + Loss(1, 8.0, 0.5, 0.5)
    assert total == Loss(3, 16.0, 1.0, 0.5) and total.relative_rms == 0.25
    assert Loss().relative_rms == 0
