"""Every family that transformers has: a checkpoint that it wrote, our logits beside its own, in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine.models import families
from engine.models.families import CLOSE, FAMILIES, WINDOW, apart, cpu, executor, ours, prompt, save, theirs

PROMPT = prompt(300)

_LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e4, "factor": 8.0, "low_freq_factor": 1.0}
_LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 64}
_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "biases": ("llama", {"attention_bias": True}),
    "tied": ("llama", {"tie_word_embeddings": True}),
    "llama3": ("llama", {"rope_parameters": _LLAMA3}),
    "linear": ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 5e4, "factor": 3.0}}),
    "yarn": ("qwen3", {"rope_parameters": _YARN}),
    "mscale": ("qwen2", {"rope_parameters": {**_YARN, "mscale": 1.3, "mscale_all_dim": 0.7}}),
    "sliding": (
        "qwen3",
        {"attention_bias": True, "use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
    ),
    "untied": ("qwen2", {"use_sliding_window": False, "tie_word_embeddings": False}),
    "gates as they are": ("qwen3_moe", {"norm_topk_prob": False, "decoder_sparse_step": 2}),
    "sliding experts": ("qwen3_moe", {"use_sliding_window": True, "sliding_window": WINDOW}),
    "clamped": ("gpt_oss", {"swiglu_limit": 0.5, "swiglu_alpha": 1.1}),
    "no biases": ("gpt_oss", {"attention_bias": False}),
    "scaled gates": ("mimo_v2_flash", {"routed_scaling_factor": 2.5, "attention_value_scale": 0.3}),
    "no scale": ("mimo_v2_flash", {"attention_value_scale": None, "norm_topk_prob": False}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_a_prompt_longer_than_the_window(family: str, tmp_path: Path) -> None:
    model = save(family, tmp_path)
    with executor(tmp_path) as made:
        assert apart(ours(made, PROMPT), theirs(model, PROMPT)) <= CLOSE


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_of_what_a_config_may_say_differently(variant: str, tmp_path: Path) -> None:
    family, changes = VARIANTS[variant]
    model = save(family, tmp_path, seed=1, changes=changes)
    with executor(tmp_path) as made:
        assert apart(ours(made, PROMPT), theirs(model, PROMPT)) <= CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_odd_chunks_and_single_tokens_give_the_same_bits_on_the_cpu(family: str, tmp_path: Path) -> None:
    ids = prompt(4 * WINDOW)
    model = save(family, tmp_path, seed=2)
    with executor(tmp_path, cpu, tiles=8) as made:
        once = ours(made, ids)
        np.testing.assert_array_equal(ours(made, ids, [1, 7, 30, 3, 17, 38]), once)
        np.testing.assert_array_equal(ours(made, ids, [40] + [1] * (len(ids) - 40)), once)
        assert apart(once, theirs(model, ids)) <= 5e-3  # its K and V are bfloat16


@pytest.mark.parametrize("keys", [WINDOW, WINDOW + 1])
def test_mimo_sees_its_window_or_one_key_more(keys: int, tmp_path: Path) -> None:
    """The convention is a parameter; transformers' class takes the number of keys."""
    model = save("mimo_v2_flash", tmp_path / "asked", changes={"sliding_window": keys})
    save("mimo_v2_flash", tmp_path / "file")  # the same weights, WINDOW keys in its config
    want = theirs(model, PROMPT)
    with executor(tmp_path / "file", change=lambda config: config.with_window(keys)) as made:
        assert apart(ours(made, PROMPT), want) <= CLOSE
    with executor(tmp_path / "file", change=lambda config: config.with_window(2 * WINDOW + 1 - keys)) as made:
        assert apart(ours(made, PROMPT), want) > 100 * CLOSE


def test_bfloat16_weights_are_taken_as_they_are(tmp_path: Path) -> None:
    save("qwen3_moe", tmp_path / "wide").bfloat16().save_pretrained(tmp_path / "narrow")
    model = families.load(tmp_path / "narrow")
    with executor(tmp_path / "narrow") as made:
        assert apart(ours(made, PROMPT), theirs(model, PROMPT)) <= CLOSE


@pytest.mark.parametrize("family", ["qwen2", "qwen3_moe", "gpt_oss", "mimo_v2_flash"])
def test_a_changed_number_is_noticed(family: str, tmp_path: Path) -> None:
    """What the other tests of this file allow is less than any one weight tensor makes."""
    model = save(family, tmp_path)
    with executor(tmp_path) as made:
        got = ours(made, PROMPT)
    for name, tensor in model.state_dict().items():
        kept = tensor.clone()
        tensor.copy_(families.shuffled(tensor))
        assert apart(got, theirs(model, PROMPT)) > 100 * CLOSE, name
        tensor.copy_(kept)
