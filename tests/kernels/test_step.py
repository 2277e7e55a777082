"""Packed weights that are not what they say are refused before anybody makes addresses of them."""

import pytest
import torch
from torch import Tensor
from ultra_kernels.formats import FORMATS, Format
from ultra_kernels.step import Packed


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_whole_blocks_are_taken(format: Format) -> None:
    data = torch.zeros(3, 2 * format.block_bytes, dtype=torch.uint8)
    assert Packed(format, data).shape == (3, 2 * format.block)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (torch.zeros(3, 36, dtype=torch.int8), "int8"),
        (torch.zeros(36, dtype=torch.uint8), r"\[36\]"),
        (torch.zeros(1, 3, 36, dtype=torch.uint8), r"\[1, 3, 36\]"),
        (torch.zeros(0, 36, dtype=torch.uint8), "whole q4_0 blocks"),
        (torch.zeros(3, 0, dtype=torch.uint8), "whole q4_0 blocks"),
        (torch.zeros(3, 35, dtype=torch.uint8), "whole q4_0 blocks of 18"),
        (torch.zeros(3, 72, dtype=torch.uint8)[:, :36], "whole q4_0 blocks"),
        (torch.zeros(36, 3, dtype=torch.uint8).T, "whole q4_0 blocks"),
    ],
)
def test_what_is_not_rows_of_blocks_is_refused(data: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Packed(FORMATS["q4_0"], data)
