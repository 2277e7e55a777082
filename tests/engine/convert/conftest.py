"""Tiny models to convert."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_checkpoints import MIXTURE, write


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
    (folder / "dflash" / ".lock").write_bytes(b"")
    (folder / "model.safetensors.verified").write_text("{}")
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
