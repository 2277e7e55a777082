"""Model families: what is read from a file becomes a ModelConfig, a ModelConfig becomes a Program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import ModelFileError, UnsupportedModel
from ..weights.checkpoint import Checkpoint
from ..weights.gguf import GGUFFile
from ..weights.gguf_cursor import shown
from . import gpt_oss, llama, mimo_v2, mimo_v2_flash, qwen2, qwen3, qwen3_moe
from .config import ModelConfig
from .gguf_names import ARCHITECTURES, gguf_name
from .lowering import lower
from .metadata import Metadata
from .quantisation import check_quantisation
from .recipes import recipes, unused
from .settings import Settings

FAMILIES: Mapping[str, Callable[[Settings], ModelConfig]] = {
    "gpt_oss": gpt_oss.from_settings,
    "llama": llama.from_settings,
    "mimo_v2": mimo_v2.from_settings,
    "mimo_v2_flash": mimo_v2_flash.from_settings,
    "qwen2": qwen2.from_settings,
    "qwen3": qwen3.from_settings,
    "qwen3_moe": qwen3_moe.from_settings,
}
"""``model_type`` of a config.json -> its family."""

GGUF_FAMILIES: Mapping[str, Callable[[Metadata], ModelConfig]] = {
    "gpt_oss": gpt_oss.from_gguf,
    "llama": llama.from_gguf,
    "qwen2": qwen2.from_gguf,
    "qwen3": qwen3.from_gguf,
    "qwen3_moe": qwen3_moe.from_gguf,
}


def read_config(source: GGUFFile | Checkpoint) -> ModelConfig:
    """The config of a model. Raises `UnsupportedModel` (with the families we run) or `ModelFileError`."""
    return _from_gguf(source) if isinstance(source, GGUFFile) else _from_checkpoint(source)


def config_from_json(path: str | Path, values: Mapping[str, Any]) -> ModelConfig:
    """What a config.json alone gives; ``path`` is what errors name. Raises as `read_config` does."""
    settings = Settings(path, values)
    kind = values.get("model_type")
    if not isinstance(kind, str):
        settings.fail("model_type", kind, "the name of a family")
    if kind not in FAMILIES:
        raise UnsupportedModel(_unknown(path, kind, FAMILIES))
    check_quantisation(settings)
    return FAMILIES[kind](settings)


def _from_checkpoint(checkpoint: Checkpoint) -> ModelConfig:
    values = checkpoint.config
    if values.get("tie_word_embeddings") is None:  # then the files say so
        values = values | {"tie_word_embeddings": "lm_head.weight" not in checkpoint.tensors}
    config = config_from_json(checkpoint.path / "config.json", values)
    return replace(config, notes=unused(config, checkpoint, recipes(config, checkpoint)))


def _from_gguf(file: GGUFFile) -> ModelConfig:
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise ModelFileError(file.path, "general.architecture is missing")
    family = ARCHITECTURES.get(architecture, architecture)
    if family not in GGUF_FAMILIES:
        raise UnsupportedModel(_unknown(file.path, architecture, GGUF_FAMILIES))
    config = GGUF_FAMILIES[family](Metadata(file))
    known = {gguf_name(weight.name, architecture) for weight in config.weights()} | {"rope_freqs.weight"}
    for name in file.tensors:
        if name not in known:
            raise UnsupportedModel(
                f"{file.path}: tensor {shown(name)} is no part of {family} models as they are supported"
            )
    return config


def _unknown(path: str | Path, kind: str, families: Mapping[str, object]) -> str:
    return f"{path} is a {kind[:60]!r} model; supported families: {', '.join(sorted(families))}"


__all__ = ["FAMILIES", "ModelConfig", "config_from_json", "gguf_name", "lower", "read_config", "recipes"]
