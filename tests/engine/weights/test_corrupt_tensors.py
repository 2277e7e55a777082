"""Weights of a file against the program: whatever is wrong with a tensor is one typed error, in time."""

from pathlib import Path

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Type
from gguf_files import Gguf, Tensor, f32
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.load import load_weights
from ultra_kernels.builder import Builder
from ultra_kernels.program import Attributes, Op, Program

ROWS, COLUMNS = 5, 64


def program() -> Program:
    """An embedding alone: one matrix is wanted."""
    b = Builder()
    table, tokens = b.weight("embed.weight", ROWS, COLUMNS), b.input("tokens", "rows")
    x = b.activation("x", "rows", COLUMNS)
    b.node(Op.EMBED, COLUMNS, {"table": table, "tokens": tokens, "x": x}, Attributes())
    return b.build(1)


def matrix(dims: list[int], type: Type = Type.F32, offset: int | None = None) -> Tensor:
    """Dimensions as the file has them: columns first."""
    return Tensor("token_embd.weight", dims, int(type), offset)


def fault(tensor: Tensor, path: Path) -> str:
    Gguf(tensors=[tensor], tail=bytes(1 << 14)).write(path)
    with pytest.raises((ModelFileError, UnsupportedModel)) as caught:
        with GGUFFile.open(path) as file:
            load_weights(file, program())
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    return str(caught.value)


def test_a_sound_tensor_is_a_view(tmp_path: Path) -> None:
    tensor = f32("token_embd.weight", ROWS, COLUMNS)
    with GGUFFile.open(Gguf(tensors=[tensor]).write(tmp_path / "m.gguf")) as file:
        packed = load_weights(file, program())["embed.weight"]
        assert packed.shape == (ROWS, COLUMNS)
        assert np.array_equal(packed.data.numpy().tobytes(), tensor.data)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (matrix([COLUMNS, ROWS], offset=2**20), "truncated"),
        (matrix([COLUMNS, ROWS], offset=2**63), "truncated"),
        (matrix([COLUMNS, ROWS], offset=2**64 - 32), "truncated"),
        (matrix([COLUMNS, ROWS], offset=16), "not aligned"),
        (matrix([COLUMNS, 2**58 + ROWS]), "truncated"),
        (matrix([COLUMNS, 2**60]), "truncated"),
        (matrix([COLUMNS, 0]), "zero dimension"),
        (matrix([0, ROWS]), "zero dimension"),
        (matrix([48, ROWS], Type.Q4_0), "not a multiple of the 32"),
        (matrix([COLUMNS, ROWS], Type.Q4_K), "not a multiple of the 256"),
        (matrix([ROWS, COLUMNS]), "the metadata says"),
        (matrix([COLUMNS]), "the metadata says"),
        (matrix([COLUMNS * ROWS]), "the metadata says"),
        (matrix([COLUMNS, ROWS, 1]), "the metadata says"),
        (matrix([COLUMNS, ROWS + 1]), "the metadata says"),
        (matrix([2 * COLUMNS, ROWS]), "the metadata says"),
        (matrix([COLUMNS, ROWS], Type.I8), "supported:"),
        (matrix([COLUMNS, ROWS], Type.F64), "supported:"),
        (Tensor("other", [COLUMNS, ROWS]), "there is no tensor token_embd.weight"),
    ],
)
def test_a_corrupt_tensor_is_refused(tensor: Tensor, words: str, tmp_path: Path) -> None:
    assert words in fault(tensor, tmp_path / "m.gguf")
