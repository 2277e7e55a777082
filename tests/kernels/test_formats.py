"""Unpacking equals the gguf package's own dequantisers bit for bit."""

import gguf
import numpy as np
import pytest
import torch
from ultra_kernels.formats import FORMATS

QUANTISED = sorted(FORMATS.keys() - {"fp8_block"})  # that one is not GGUF's: see test_packing.py


@pytest.mark.parametrize("name", QUANTISED)
def test_equals_the_gguf_package(name: str) -> None:
    format = FORMATS[name]
    rng = np.random.default_rng(7)
    packed = rng.integers(0, 256, (6, format.block_bytes * 5), dtype=np.uint8)
    if name == "mxfp4":  # whose scale 255 is a number to ggml
        packed[:, :: format.block_bytes] %= 255
    with np.errstate(all="ignore"):  # random scales include infinities
        want = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[name.upper()])
    got = format.rows(torch.from_numpy(packed)).numpy()
    assert got.shape == want.shape == (6, format.block * 5)
    np.testing.assert_array_equal(got.view(np.uint32)[~np.isnan(want)], want.view(np.uint32)[~np.isnan(want)])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("name", QUANTISED)
def test_sizes_are_those_of_ggml(name: str) -> None:
    block, block_bytes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name.upper()]]
    assert (FORMATS[name].block, FORMATS[name].block_bytes) == (block, block_bytes)


def test_mxfp4_equals_the_gguf_package_for_every_byte_and_scale() -> None:
    scales, bytes_ = np.mgrid[:255, :256].astype(np.uint8)
    packed = np.concatenate((scales[:, :16, None], bytes_.reshape(255, 16, 16)), axis=2).reshape(255, -1)
    with np.errstate(over="ignore"):
        want = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.MXFP4)
    got = FORMATS["mxfp4"].rows(torch.from_numpy(packed)).numpy()
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


def test_a_scale_that_is_not_a_number_is_nan() -> None:
    assert FORMATS["mxfp4"].unpack(torch.full((1, 17), 255, dtype=torch.uint8)).isnan().all()


def test_blocks_must_divide_the_row() -> None:
    with pytest.raises(ValueError, match="does not divide 100"):
        FORMATS["q4_k"].row_bytes(100)
