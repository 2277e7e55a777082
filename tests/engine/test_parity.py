"""The reference executor equals transformers, float32 on the same dequantised weights, token for token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from parity import Oracle
from ultra_engine.models import lower, read_config
from ultra_engine.runner import CHUNK, Runner
from ultra_engine.tokens.prompt import encode_prompt
from ultra_engine.tokens.template import ChatTemplate
from ultra_engine.tokens.tokenizer import Tokenizer
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.hub import resolve
from ultra_engine.weights.load import load_weights
from ultra_engine.weights.registry import TEST_MODEL
from ultra_kernels.checks import check
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Sizes

QUESTIONS = [
    "Write a Python function that reverses a string.",
    "What is the capital of France?",
    "List three uses of a hash table.",
    "Explain recursion to a child, in two sentences.",
    "def fibonacci(n):",
]


def _never() -> bool:
    return False


def _runner(file: GGUFFile, context: int = 512) -> Runner:
    program = lower(read_config(file))
    check(program)
    executor = ReferenceExecutor(program, load_weights(file, program), Sizes(CHUNK, context // 16))
    return Runner(executor, context)


def _greedy(runner: Runner, prompt: list[int], count: int) -> list[int]:
    logits, out = runner.prefill(prompt, _never, lambda done: None), []
    for _ in range(count):
        out.append(int(logits.argmax()))
        logits = runner.decode(out[-1], _never)
    return out


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("tied", [False, True])
def test_both_families_on_random_weights(family: str, tied: bool, tmp_path: Path) -> None:
    """Prompts up to more than one prefill chunk, 64 greedy tokens after each."""
    torch.set_num_threads(1)
    with GGUFFile.open(tiny_models.write(tmp_path / "m.gguf", family, tied=tied, seed=1)) as file:
        oracle, runner = Oracle(file), _runner(file)
        rng = np.random.default_rng(2)
        for length in (1, 5, 40, 255, 300):
            prompt = rng.integers(0, tiny_models.VOCAB, length).tolist()
            want = oracle.logits(prompt)[-1]
            got = runner.prefill(prompt, _never, lambda done: None)
            assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()
            assert _greedy(runner, prompt, 64) == oracle.greedy(prompt, 64)


def test_the_real_small_model() -> None:
    """SmolLM2 (family llama) from its Q4_1 file: 5 chat prompts, 64 greedy tokens each."""
    torch.set_num_threads(2)
    with GGUFFile.open(resolve(TEST_MODEL)) as file:
        tokenizer, template = Tokenizer.from_gguf(file), ChatTemplate.from_gguf(file)
        oracle, runner = Oracle(file), _runner(file)
        for question in QUESTIONS:
            messages = [{"role": "user", "content": question}]
            prompt = encode_prompt(tokenizer, template, messages=messages)
            assert _greedy(runner, prompt, 64) == oracle.greedy(prompt, 64)
