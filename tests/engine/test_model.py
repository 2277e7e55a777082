"""A model out of a folder is the model out of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_safetensors
import torch
from engine.collect import run
from ultra_engine.engine import Engine
from ultra_engine.errors import ModelError, ModelFileError, UnsupportedModel
from ultra_engine.model import Model
from ultra_kernels.step import Step

STEP = Step([5, 80, 200, 7], range(4), [0] * 4, [[0]], [0, 3])


@pytest.fixture(scope="module")
def folder(qwen2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_safetensors.write(tmp_path_factory.mktemp("folder") / "qwen2", qwen2, shards=3)


@pytest.mark.parametrize(("executor", "precision"), [("auto", None), ("reference", "float32")])
def test_the_same_bits(qwen2: Path, folder: Path, executor: str, precision: str | None) -> None:
    logits, models = (
        [],
        [Model.load(path, executor=executor, precision=precision) for path in (qwen2, folder)],
    )
    for model in models:
        logits.append(model._executor.run(STEP))
        assert model.tokenizer.encode("hello") == models[0].tokenizer.encode("hello")
        assert model.template.source == models[0].template.source
        assert model.parameters == models[0].parameters and model.config.family == "qwen2"
        model.close()
    assert torch.equal(*logits)


def test_it_serves(qwen2: Path, folder: Path) -> None:
    """A chat: its prompt by the folder's template, its end by the folder's tokens."""
    answers = []
    for path in (qwen2, folder):
        with Engine.open(str(path), executor="reference") as engine:
            done = run(engine, messages=[{"role": "user", "content": "hi"}], max_tokens=8, prompt=None)
            answers.append((done.tokens(), done.wait().stats.prompt_tokens))
    assert answers[0] == answers[1]


def test_progress_counts_every_weight(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    Model.load(folder, executor="reference", progress=lambda *at: seen.append(at)).close()
    assert seen == [(done, len(seen)) for done in range(1, len(seen) + 1)] and len(seen) > 30


def test_a_folder_without_a_tokenizer(qwen2: Path, tmp_path: Path) -> None:
    folder = tiny_safetensors.write(tmp_path / "x", qwen2)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match="tokenizer.json: no such file"):
        Model.load(folder, executor="reference")


@pytest.mark.parametrize("name", ["config", "tokenizer", "tokenizer_config", "generation_config"])
def test_a_file_that_nests_too_deep(qwen2: Path, tmp_path: Path, name: str) -> None:
    folder = tiny_safetensors.write(tmp_path / "x", qwen2)
    (folder / f"{name}.json").write_text('{"a":' * 100_000)
    with pytest.raises(ModelFileError, match=f"{name}.json: it nests too deep"):
        Model.load(folder, executor="reference")


def test_a_folder_of_another_kind(qwen2: Path, tmp_path: Path) -> None:
    folder = tiny_safetensors.write(tmp_path / "x", qwen2)
    (folder / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(UnsupportedModel, match="'mamba' model; supported families: .*qwen2"):
        Model.load(folder)
    with pytest.raises(ModelError, match="config.json: no such file"):
        Model.load(tmp_path)
