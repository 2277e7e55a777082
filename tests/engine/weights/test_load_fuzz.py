"""From the bytes of a folder or a file to the weights of a program: loaded, or one typed error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tiny_safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.models import lower, read_config, recipes
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.load import checkpoint_weights, load_weights

FILES = [
    "config.json",
    "model.safetensors.index.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
]
_TOKENS = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"-",
    b"0",
    b"9",
    b"1e9",
    b"null",
    b"true",
    b"NaN",
    b"\xff",
]
_EDITS = st.lists(st.tuples(st.integers(0, 1 << 16), st.sampled_from(_TOKENS)), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def folder(qwen2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_safetensors.write(tmp_path_factory.mktemp("fuzz") / "sound", qwen2, shards=2)


def edited(content: bytes, edits: list[tuple[int, bytes]], within: int) -> bytes:
    """Some bytes of the first ``within`` replaced by JSON's own words."""
    changed = bytearray(content)
    for at, token in edits:
        at %= within
        changed[at : at + len(token)] = token
    return bytes(changed)


@given(file=st.sampled_from(FILES), edits=_EDITS)
@settings(max_examples=150, deadline=None)
def test_a_folder_with_some_bytes_changed(folder: Path, file: str, edits: list[tuple[int, bytes]]) -> None:
    other = folder.with_name("other")
    if not other.exists():
        shutil.copytree(folder, other)
    content = (folder / file).read_bytes()
    within = 8 + int.from_bytes(content[:8], "little") if file.endswith("safetensors") else len(content)
    (other / file).write_bytes(edited(content, edits, within))
    try:
        with Checkpoint.open(other) as checkpoint:
            config = read_config(checkpoint)
            if config.parameters < 1 << 24:
                for weight in checkpoint_weights(
                    checkpoint, recipes(config, checkpoint), lower(config)
                ).values():
                    assert weight.load().shape == weight.shape
    except (ModelFileError, UnsupportedModel) as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
    finally:
        (other / file).write_bytes(content)


@given(edits=st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=9)), max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_gguf_file_with_some_bytes_changed(
    qwen2: Path, tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, bytes]]
) -> None:
    content = qwen2.read_bytes()
    path = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    path.write_bytes(edited(content, edits, 10_000))
    try:
        with GGUFFile.open(path) as file:
            config = read_config(file)
            if config.parameters < 1 << 24:
                for weight in load_weights(file, lower(config)).values():
                    assert weight.data.numel()
    except (ModelFileError, UnsupportedModel) as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
