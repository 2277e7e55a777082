"""GGUF metadata of a decoder, every number checked before anything is built from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError, UnsupportedModel
from ..weights.gguf import GGUFFile
from .basics import MAX_CONTEXT, MAX_EXPERTS, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, Basics
from .config import Rope
from .rope import KINDS, Scaling, rope

_USUAL = {
    "rope.scaling.attn_factor": 1.0,
    "rope.scaling.yarn_attn_factor": 1.0,
    "rope.scaling.yarn_ext_factor": 1.0,
    "rope.scaling.yarn_log_multiplier": 0.0,
}
"""What YaRN in GGUF may have otherwise, though no model of our families does."""


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

    def has(self, tensor: str) -> bool:
        """Whether the first layer has a tensor of that name: biases are in a file, or they are not."""
        return f"blk.0.{tensor}" in self._file.tensors

    def basics(self) -> Basics:
        hidden, heads = self.integer("embedding_length"), self.integer("attention.head_count", top=MAX_HEADS)
        tensors = self._file.tensors
        if "token_embd.weight" not in tensors:
            raise ModelFileError(self._file.path, "there is no tensor token_embd.weight")
        head_dim = self.integer("attention.key_length", hidden // heads or None, top=MAX_HEADS)
        value_dim = self.integer("attention.value_length", head_dim, top=MAX_HEADS)
        if value_dim != head_dim:
            raise ModelFileError(
                self._file.path,
                f"{self._prefix}attention.value_length is {value_dim}, key_length {head_dim}: not equal",
            )
        return Basics(
            path=str(self._file.path),
            name=str(self._values.get("general.name", self._prefix[:-1])),
            layers=self.integer("block_count", top=MAX_LAYERS),
            hidden=hidden,
            heads=heads,
            kv_heads=self.integer("attention.head_count_kv", heads, top=MAX_HEADS),
            head_dim=head_dim,
            value_dim=value_dim,
            vocab=tensors["token_embd.weight"].shape[0],
            context=self.integer("context_length", top=MAX_CONTEXT),
            eps=self.number("attention.layer_norm_rms_epsilon"),
            tied="output.weight" not in tensors,
        )

    def experts(self) -> tuple[int, int, int]:
        """How many there are, how many of them a token takes, and columns of one."""
        count = self.integer("expert_count", top=MAX_EXPERTS)
        chosen = self.integer("expert_used_count", top=count)
        return count, chosen, self.integer("expert_feed_forward_length")

    def rope(self, head_dim: int, *, interleaved: bool = False, truncate: bool = True) -> Rope:
        """The frequencies, their scaling as metadata or (Llama 3) as a tensor of factors. ``truncate``: see
        `Scaling`; GGUF does not say it."""
        dims = self.integer("rope.dimension_count", head_dim, top=head_dim)
        if dims % 2:
            raise ModelFileError(self._file.path, f"rope.dimension_count {dims} is odd")
        scaling = self._scaling(truncate)
        if scaling.kind == "yarn" and dims != head_dim:
            raise UnsupportedModel(f"{self._file.path}: YaRN on a part of the head; supported: on all of it")
        base = self.number("rope.freq_base", 10000.0)
        return rope(dims, base, scaling, interleaved=interleaved, divisors=self._divisors(dims))

    def _scaling(self, truncate: bool) -> Scaling:
        kind = self._values.get(self._prefix + "rope.scaling.type", "none")
        if kind == "none":
            return Scaling()
        if kind not in KINDS:
            raise UnsupportedModel(
                f"{self._file.path}: RoPE scaling {kind!r}; supported: none, linear, llama3, yarn"
            )
        factor = self.number("rope.scaling.factor")
        if kind != "yarn":
            return Scaling(kind, factor)
        for key, usual in _USUAL.items():
            value = self._values.get(self._prefix + key, usual)
            if value != usual:
                raise UnsupportedModel(f"{self._file.path}: {key} {value!r}; supported: {usual}")
        context, plain = self.integer("context_length", top=MAX_CONTEXT), Scaling()
        return Scaling(
            kind,
            factor,
            self.number("rope.scaling.original_context_length", context),
            beta_fast=self.number("rope.scaling.yarn_beta_fast", plain.beta_fast),
            beta_slow=self.number("rope.scaling.yarn_beta_slow", plain.beta_slow),
            truncate=truncate,
        )

    def _divisors(self, dims: int) -> npt.NDArray[np.float32] | None:
        if "rope_freqs.weight" not in self._file.tensors:
            return None
        data = self._file.data("rope_freqs.weight")
        if data.nbytes != dims * 2:
            raise ModelFileError(self._file.path, f"rope_freqs.weight is not float32 [{dims // 2}]")
        return cast("npt.NDArray[np.float32]", data.view(np.float32).reshape(-1))
