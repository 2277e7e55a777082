"""Token ids against llama.cpp's, made by scripts/golden_tokens.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ultra_engine.tokens.tokenizer import Tokenizer
from ultra_engine.weights import hub
from ultra_engine.weights.gguf import GGUFFile

HERE = Path(__file__).parent


@pytest.fixture(scope="module", params=["smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
def case(request: pytest.FixtureRequest) -> tuple[Tokenizer, dict[str, Any]]:
    """A tokenizer and its golden ids; the large models are tested where they are at hand anyway."""
    name = request.param
    if name != "smollm2-135m" and hub.cached(name) is None:
        pytest.skip(f"{name} is not in the cache")
    with GGUFFile.open(hub.resolve(name)) as file:
        tokenizer = Tokenizer.from_gguf(file)
    # The Qwen2.5 coders share one vocabulary.
    golden = name.replace("1.5b", "0.5b")
    return tokenizer, json.loads((HERE / f"golden_{golden}.json").read_text())


def test_vocabulary_size(case: tuple[Tokenizer, dict[str, Any]]) -> None:
    tokenizer, golden = case
    assert tokenizer.vocab_size == golden["vocab"]


def test_ends_of_generation(case: tuple[Tokenizer, dict[str, Any]]) -> None:
    tokenizer, golden = case
    # llama.cpp also stops at an ordinary word </s>, which is HTML to Qwen's vocabulary.
    assert tokenizer.eog_ids == {id for id in golden["eog"] if tokenizer.piece(id) != b"</s>"}


def test_ids(case: tuple[Tokenizer, dict[str, Any]]) -> None:
    tokenizer, golden = case
    for row in golden["texts"]:
        assert tokenizer.encode(row["text"], bos=False) == row["plain"], row["text"]
        special = tokenizer.encode(row["text"], special=True, bos=False)
        assert special == row.get("special", row["plain"]), row["text"]


def test_texts_come_back(case: tuple[Tokenizer, dict[str, Any]]) -> None:
    tokenizer, golden = case
    # SmolLM2's vocabulary lacks some control and never-used UTF-8 bytes; they vanish, in llama.cpp too.
    known = {piece[0] for id in range(tokenizer.vocab_size) if len(piece := tokenizer.piece(id)) == 1}
    texts = [row["text"] for row in golden["texts"] if known.issuperset(row["text"].encode())]
    assert len(texts) > 60
    for text in texts:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("pre", ["llama-bpe", "qwen2", "gpt-2", "default"])
def test_other_pre_tokenizers(pre: str) -> None:
    """SmolLM2's vocabulary, split as other families split."""
    texts = json.loads((HERE / "golden_smollm2-135m.json").read_text())["texts"]
    golden = json.loads((HERE / "golden_pre.json").read_text())[pre]
    with GGUFFile.open(hub.resolve("smollm2-135m")) as file:
        file.metadata["tokenizer.ggml.pre"] = pre
        tokenizer = Tokenizer.from_gguf(file)
    for row, ids in zip(texts, golden, strict=False):
        assert tokenizer.encode(row["text"], special=True, bos=False) == ids, row["text"]


def test_decoded_bytes(case: tuple[Tokenizer, dict[str, Any]]) -> None:
    tokenizer, golden = case
    for row in golden["decoded"]:
        assert tokenizer.decode(row["ids"]) == bytes.fromhex(row["bytes"]).decode("utf-8", "replace")
