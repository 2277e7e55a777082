"""Tiny models on disk, and the small real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_gguf
from engine.collect import open_engine
from ultra_engine.engine import Engine


@pytest.fixture(scope="session")
def qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("tiny") / "qwen2.gguf", "qwen2")


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("tiny") / "llama.gguf", "llama", tied=True)


@pytest.fixture(scope="module")
def engine(qwen2: Path) -> Iterator[Engine]:
    """An engine on the tiny Qwen2; random weights, so its text is noise, but always the same noise."""
    with open_engine(qwen2) as engine:
        yield engine
