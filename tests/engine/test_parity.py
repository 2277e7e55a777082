"""The reference executor equals transformers, float32 on the same dequantised weights, token for token.

`scripts/parity.py MODEL` does the same for any model, the real Qwen2.5-Coder ones included.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_gguf
import torch
from parity import Oracle, compare, greedy, never, runner
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.hub import resolve
from ultra_engine.weights.registry import TEST_MODEL


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("tied", [False, True])
def test_both_families_on_random_weights(family: str, tied: bool, tmp_path: Path) -> None:
    """Prompts up to more than one prefill chunk, 64 greedy tokens after each."""
    torch.set_num_threads(1)
    with GGUFFile.open(tiny_gguf.write(tmp_path / "m.gguf", family, tied=tied, seed=1)) as file:
        oracle, ours = Oracle(file), runner(file)
        rng = np.random.default_rng(2)
        for length in (1, 5, 40, 255, 300):
            prompt = rng.integers(0, tiny_gguf.VOCAB, length).tolist()
            want = oracle.logits(prompt)[-1]
            got = ours.prefill(prompt, never, lambda done: None)
            assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
            assert greedy(ours, prompt, 64) == oracle.greedy(prompt, 64)


def test_the_real_small_model() -> None:
    """SmolLM2 (family llama) from its Q4_1 file: 5 chat prompts, 64 greedy tokens each."""
    torch.set_num_threads(2)
    for question, ours, theirs in compare(resolve(TEST_MODEL)):
        assert ours == theirs, question
