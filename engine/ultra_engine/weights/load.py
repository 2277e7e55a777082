"""GGUF tensors -> the packed weights that a Program asks for, as views of the file: nothing is copied."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch
from ultra_kernels.formats import FORMATS
from ultra_kernels.program import Program
from ultra_kernels.step import Packed

from ..errors import ModelFileError, UnsupportedModel
from .gguf import GGUFFile

_GLOBAL = {"embed": "token_embd", "norm": "output_norm", "head": "output"}
_LAYER = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "mlp_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def gguf_name(name: str) -> str:
    """Our canonical tensor name in GGUF's words: "layers.3.q.bias" -> "blk.3.attn_q.bias"."""
    parts = name.split(".")
    if parts[0] == "layers":
        return f"blk.{parts[1]}.{_LAYER[parts[2]]}.{parts[3]}"
    return f"{_GLOBAL[parts[0]]}.{parts[1]}"


def load_weights(file: GGUFFile, program: Program) -> dict[str, Packed]:
    """Every weight of ``program`` from ``file``, shapes checked.

    Raises `ModelFileError` for a missing or misshapen tensor, `UnsupportedModel` for an unknown format.
    """
    return {
        buffer.name: _tensor(file, gguf_name(buffer.name), tuple(int(size) for size in buffer.shape))
        for buffer in program.weights()
    }


def _tensor(file: GGUFFile, name: str, shape: tuple[int, ...]) -> Packed:
    info = file.tensors.get(name)
    if info is None:
        raise ModelFileError(file.path, f"there is no tensor {name}")
    if tuple(info.shape) != shape:
        raise ModelFileError(file.path, f"tensor {name} is {tuple(info.shape)}, the metadata says {shape}")
    format = FORMATS.get(info.type.name.lower())
    if format is None:
        raise UnsupportedModel(
            f"{file.path}: tensor {name} is {info.type.name}; supported: {', '.join(sorted(FORMATS))}"
        )
    rows = math.prod(shape[:-1])
    return Packed(format, _borrow(file.data(name)).reshape(rows, format.row_bytes(shape[-1])))


def _borrow(data: np.ndarray) -> torch.Tensor:
    """A tensor over the read-only file; torch has no read-only tensors and warns, and nothing here writes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(data)
