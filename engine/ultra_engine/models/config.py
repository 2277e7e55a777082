"""The numbers that make one model: what a family reads from a file, and all that the lowering needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding. ``inv_freq`` is float32 [dims / 2], with every kind of scaling already in it."""

    dims: int
    inv_freq: npt.NDArray[np.float32]
    interleaved: bool


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A dense decoder of pre-norm blocks. Sizes are numbers of elements."""

    family: str
    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    eps: float
    rope: Rope
    qkv_bias: bool
    qk_norm: bool
    tied: bool
    """The head is the embedding table."""
    window: int = 0

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of K and V of one position in bfloat16, all layers."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim
