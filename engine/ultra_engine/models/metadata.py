"""GGUF metadata of a dense decoder -> ModelConfig, every number checked before anything is built from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError, UnsupportedModel
from ..weights.gguf import GGUFFile
from .config import ModelConfig, Rope

MAX_LAYERS, MAX_WIDTH = 512, 1 << 20


class Metadata:
    """Typed access to ``<architecture>.*`` keys; a missing or absurd value is a `ModelFileError`."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._values: Mapping[str, Any] = file.metadata
        self._prefix = str(file.metadata.get("general.architecture", "")) + "."

    def integer(self, key: str, default: int | None = None, top: int = MAX_WIDTH) -> int:
        value = self._values.get(self._prefix + key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= top:
            raise ModelFileError(self._file.path, f"{self._prefix}{key} is {value!r}, not 1 to {top}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._values.get(self._prefix + key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
            raise ModelFileError(self._file.path, f"{self._prefix}{key} is {value!r}, not a positive number")
        return float(value)

    def dense(self, family: str, *, interleaved: bool, qkv_bias: bool) -> ModelConfig:
        """The config of a dense pre-norm decoder with grouped-query attention and a SwiGLU MLP."""
        hidden, heads = self.integer("embedding_length"), self.integer("attention.head_count", top=4096)
        kv_heads = self.integer("attention.head_count_kv", heads, top=4096)
        head_dim = self.integer("attention.key_length", hidden // heads or None, top=4096)
        if heads % kv_heads or self.integer("attention.value_length", head_dim) != head_dim:
            raise ModelFileError(self._file.path, f"{heads} heads over {kv_heads} of {head_dim} do not group")
        tensors = self._file.tensors
        if "token_embd.weight" not in tensors:
            raise ModelFileError(self._file.path, "there is no tensor token_embd.weight")
        return ModelConfig(
            family=family,
            name=str(self._values.get("general.name", family)),
            layers=self.integer("block_count", top=MAX_LAYERS),
            hidden=hidden,
            intermediate=self.integer("feed_forward_length"),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            vocab=tensors["token_embd.weight"].shape[0],
            context=self.integer("context_length", top=1 << 30),
            eps=self.number("attention.layer_norm_rms_epsilon"),
            rope=self._rope(head_dim, interleaved),
            qkv_bias=qkv_bias,
            qk_norm=False,
            tied="output.weight" not in tensors,
        )

    def _rope(self, head_dim: int, interleaved: bool) -> Rope:
        """Plain or linearly scaled frequencies, over the per-pair factors that Llama 3 files carry."""
        dims = self.integer("rope.dimension_count", head_dim, top=head_dim)
        if dims % 2:
            raise ModelFileError(self._file.path, f"rope.dimension_count {dims} is odd")
        base = self.number("rope.freq_base", 10000.0)
        kind = self._values.get(self._prefix + "rope.scaling.type", "none")
        # Float32 throughout, as transformers computes them: their last bit moves far positions.
        exponents = np.arange(0, dims, 2, dtype=np.float32) / np.float32(dims)
        inv_freq = (np.float32(1) / np.float32(base) ** exponents).astype(np.float32)
        if kind == "linear":
            inv_freq /= np.float32(self.number("rope.scaling.factor"))
        elif kind != "none":
            raise UnsupportedModel(
                f"{self._file.path}: RoPE scaling {kind!r}; supported: none, linear, llama3"
            )
        return Rope(dims, inv_freq / self._factors(dims), interleaved)

    def _factors(self, dims: int) -> npt.NDArray[np.float32]:
        if "rope_freqs.weight" not in self._file.tensors:
            return np.ones(dims // 2, dtype=np.float32)
        data = self._file.data("rope_freqs.weight")
        if data.nbytes != dims * 2:
            raise ModelFileError(self._file.path, f"rope_freqs.weight is not float32 [{dims // 2}]")
        return cast("npt.NDArray[np.float32]", data.view(np.float32).reshape(-1))
