"""Tiny models with random weights, written by transformers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
}


def write(folder: Path, family: str, original: bool = True, **changes: Any) -> Path:
    """A checkpoint of that family; ``original`` False: experts fused, as transformers has them in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        torch.manual_seed(3)
        config = getattr(transformers, f"{family}Config")(**SIZES, **changes)
        model = getattr(transformers, f"{family}ForCausalLM")(config).to(torch.bfloat16)
        model.save_pretrained(folder, save_original_format=original)
    return folder


MIXTURE: dict[str, Any] = {
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_experts": 4,
    "mlp_only_layers": [0],
}


@pytest.fixture(scope="session")
def moe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """qwen3_moe: a dense layer and two of four experts; with what repositories have besides."""
    folder = write(tmp_path_factory.mktemp("source") / "tiny-moe", "Qwen3Moe", **MIXTURE)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Tiny\n")
    (folder / "LICENSE").write_text("Do as you like.\n")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"weights in another form")
    (folder / "dflash").mkdir()
    (folder / "dflash" / "config.json").write_text("{}")
    (folder / "dflash" / "model.safetensors").write_bytes(b"a drafter's weights")
    (folder / "figures").mkdir()
    (folder / "figures" / "plot.png").write_bytes(b"")
    return folder


@pytest.fixture(scope="session")
def fused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model, experts fused."""
    return write(tmp_path_factory.mktemp("source") / "fused", "Qwen3Moe", original=False, **MIXTURE)


@pytest.fixture(scope="session")
def gpt_oss(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"intermediate_size": 96, "num_local_experts": 4, "sliding_window": 16}
    return write(tmp_path_factory.mktemp("source") / "gpt-oss", "GptOss", **sizes)


@pytest.fixture(scope="session")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("source") / "dense", "Qwen3", intermediate_size=96)
