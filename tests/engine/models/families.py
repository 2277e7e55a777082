"""Tiny checkpoints of the families that transformers has, written by it, and the logits of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from ultra_engine.models import ModelConfig, lower, read_config, recipes
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.load import checkpoint_weights, load_weights
from ultra_kernels.checks import check
from ultra_kernels.cpu.executor import CpuExecutor
from ultra_kernels.reference import ReferenceExecutor
from ultra_kernels.step import Executor, Sizes, Step

CLOSE = 1e-5
"""How far two sides in float32 may be `apart`."""

VOCAB, LAYERS, WINDOW, CONTEXT, BLOCKS = 97, 4, 24, 512, 24

_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": False,
}
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 3, "moe_intermediate_size": 32}
_TYPES = ["full_attention", "sliding_attention"] * (LAYERS // 2)

FAMILIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e4}}),
    "qwen2": (
        "Qwen2Config",
        {
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "max_window_layers": 2,
            "tie_word_embeddings": True,
        },
    ),
    "qwen3": ("Qwen3Config", {"head_dim": 24, "tie_word_embeddings": True}),
    "qwen3_moe": (
        "Qwen3MoeConfig",
        {"head_dim": 24, "num_experts": 8, "norm_topk_prob": True, "mlp_only_layers": [1], **_EXPERTS},
    ),
    "gpt_oss": (
        "GptOssConfig",
        {"head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3, "sliding_window": WINDOW},
    ),
    "mimo_v2_flash": (
        "MiMoV2FlashConfig",
        {
            "head_dim": 24,
            "v_head_dim": 16,
            "n_routed_experts": 8,
            "layer_types": _TYPES,
            "sliding_window": WINDOW,
            **_EXPERTS,
        },
    ),
}
"""Family -> transformers' config class, and what it gets beside the common sizes."""


_PLAIN = {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager"}


def save(family: str, folder: Path, *, seed: int = 0, changes: Mapping[str, Any] = {}) -> Any:
    """Write a float32 checkpoint of random weights to ``folder``; returns transformers' model of it."""
    name, own = FAMILIES[family]
    config = getattr(transformers, name)(**{**_COMMON, **own, **changes})
    model = transformers.AutoModelForCausalLM.from_config(config, **_PLAIN)
    randomise(model, seed)
    model.save_pretrained(folder)
    return model.eval()


def load(folder: Path) -> Any:
    """Transformers' model of a checkpoint, in float32."""
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **_PLAIN).eval()


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Every number: transformers begins with biases of 0, norms of 1, and equal corrections."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        buffers = ((n, b) for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))
        for name, tensor in (*model.named_parameters(), *buffers):
            values = torch.randn(tensor.shape, generator=generator)
            if tensor.dim() > 1 and not name.endswith("_bias"):
                values *= min(tensor.shape[-2:]) ** -0.5 if "embed" not in name else 1.0
            else:
                values = values * 0.3 + ("norm" in name)
            tensor.copy_(values)


def theirs(model: Any, ids: Sequence[int]) -> np.ndarray:
    """float32 [len(ids), vocabulary]."""
    with torch.inference_mode():
        return model(torch.tensor([list(ids)])).logits[0].numpy()


@contextmanager
def executor(
    folder: Path,
    make: Callable[..., Executor] = ReferenceExecutor,
    tiles: int = 1,
    change: Callable[[ModelConfig], ModelConfig] = lambda config: config,
) -> Iterator[Executor]:
    """The checkpoint in ``folder`` by our loader, on a sound program."""
    with Checkpoint.open(folder) as checkpoint:
        config = change(read_config(checkpoint))
        program = lower(config, tiles)
        check(program)
        weights = checkpoint_weights(checkpoint, recipes(config, checkpoint), program)
        made = make(program, weights, Sizes(CONTEXT, BLOCKS))
        try:
            yield made
        finally:
            made.close()


@contextmanager
def gguf_executor(path: Path) -> Iterator[Executor]:
    """The same of a GGUF file, on the reference executor."""
    with GGUFFile.open(path) as file:
        program = lower(read_config(file))
        check(program)
        yield ReferenceExecutor(program, load_weights(file, program), Sizes(CONTEXT, BLOCKS))


def cpu(*arguments: Any) -> CpuExecutor:
    return CpuExecutor(*arguments, 2)


def ours(executor: Executor, ids: Sequence[int], counts: Sequence[int] = ()) -> np.ndarray:
    """Logits of every position, in steps of so many rows (one step if none are given)."""
    found, start = [], 0
    for count in counts or [len(ids)]:
        rows = ids[start : start + count]
        positions = range(start, start + count)
        step = Step(rows, positions, [0] * count, [range(BLOCKS)], range(count))
        found.append(executor.run(step).clone().numpy())
        start += count
    assert start == len(ids)
    return np.concatenate(found)


def prompt(length: int, seed: int = 7) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, length).tolist()


def apart(got: np.ndarray, want: np.ndarray) -> float:
    """The largest difference, relative to the largest logit."""
    return float(np.abs(got - want).max() / np.abs(want).max())


def shuffled(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, each in its neighbour's place."""
    return tensor.flatten().roll(1).reshape(tensor.shape)
