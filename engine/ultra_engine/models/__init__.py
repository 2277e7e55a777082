"""Model families: what is read from a file becomes a ModelConfig, a ModelConfig becomes a Program."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ModelFileError, UnsupportedModel
from ..weights.gguf import GGUFFile
from . import llama, qwen2
from .config import ModelConfig
from .lowering import lower
from .metadata import Metadata

FAMILIES: dict[str, Callable[[Metadata], ModelConfig]] = {"llama": llama.config, "qwen2": qwen2.config}
"""GGUF architecture -> its family."""


def read_config(file: GGUFFile) -> ModelConfig:
    """The config of a GGUF file. Raises `UnsupportedModel` (with the families we run) or `ModelFileError`."""
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ModelFileError(file.path, "general.architecture is missing")
    if architecture not in FAMILIES:
        raise UnsupportedModel(
            f"{file.path} is a {architecture!r} model; supported families: {', '.join(sorted(FAMILIES))}"
        )
    config = FAMILIES[architecture](Metadata(file))
    unused = [name for name in file.tensors if "exps" in name or "attn_qkv" in name]
    if unused:
        raise UnsupportedModel(f"{file.path}: {unused[0]}: no dense {architecture} model; not supported yet")
    return config


__all__ = ["FAMILIES", "ModelConfig", "lower", "read_config"]
