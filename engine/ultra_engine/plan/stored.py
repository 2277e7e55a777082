"""How many bits each weight has in the files, by what config.json says of their quantisation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import ModelFileError
from ..models.config import Mixture, ModelConfig, Role, Weight

MXFP4, FP8, HALF, SINGLE = 8 * 17 / 32, 8 + 32 / 128**2, 16.0, 32.0
"""Bits a weight, scales included."""

_MODULES = {
    **{f"{name}.weight": ("qkv_proj", f"{name}_proj") for name in "qkv"},
    "o.weight": ("o_proj",),
    **{f"{name}.weight": (f"{name}_proj",) for name in ("gate", "up", "down")},
}
"""The modules of transformers that a weight of ours is in."""


def bits(config: ModelConfig, values: Mapping[str, Any]) -> Callable[[Weight], float]:
    """A function that gives the bits of a weight of ``config``, which ``values`` is the config.json of."""
    quantised = values.get("quantization_config") or {}
    plain = SINGLE if (values.get("dtype") or values.get("torch_dtype")) == "float32" else HALF
    method = quantised.get("quant_method")
    experts = {"mxfp4": MXFP4, "fp8": FP8}.get(str(method), plain)
    if quantised.get("store_dtype") == "mxfp4":
        experts = MXFP4
    mixture = any(isinstance(layer.mlp, Mixture) for layer in config.layers)
    # In a dense model that says MXFP4, the MLPs are what has it.
    mlp = FP8 if mixture else experts
    kept = _kept(quantised) if method == "fp8" else None

    def of(weight: Weight) -> float:
        if len(weight.shape) == 1 or weight.name.endswith(".bias"):
            return plain
        if weight.role is Role.EXPERTS:
            return experts
        if weight.role not in (Role.ATTENTION, Role.MLP) or kept is None:
            return plain
        if kept(weight):
            return plain
        return mlp if weight.role is Role.MLP else FP8

    return of


_NAMES = ("ignored_layers", "modules_to_not_convert")


def check_names(path: Path, values: Mapping[str, Any]) -> None:
    """Raise `ModelFileError` where the modules that are left alone are not a list of names."""
    quantised = values.get("quantization_config") or {}
    for key in _NAMES:
        names = quantised.get(key)
        if names is not None and not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
            raise ModelFileError(path, f"quantization_config.{key} is not a list of names")


def _kept(quantised: Mapping[str, Any]) -> Callable[[Weight], bool]:
    """Whether a matrix is one of those that FP8 leaves alone."""
    names = set(next((quantised[key] for key in _NAMES if quantised.get(key)), ()))

    def kept(weight: Weight) -> bool:
        match = re.fullmatch(r"layers\.(\d+)\.(.+)", weight.name)
        if match is None:
            return False
        part = "self_attn" if weight.role is Role.ATTENTION else "mlp"
        modules = _MODULES.get(match[2], ())
        return any(f"model.layers.{match[1]}.{part}.{module}" in names for module in modules)

    return kept
