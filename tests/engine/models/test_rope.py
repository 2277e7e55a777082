"""Rotary frequencies are transformers' own, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine.models import published
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from ultra_engine.models import config_from_json
from ultra_engine.models.rope import rope
from ultra_engine.models.settings import Settings

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8192}
YARN = {"factor": 32.0, "original_max_position_embeddings": 4096}

KINDS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 3.0},
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn, not rounded": YARN | {"truncate": False, "beta_fast": 16.0, "beta_slow": 2.0},
    "yarn, weighed": YARN | {"mscale": 0.707, "mscale_all_dim": 1.0},
    "yarn, told": YARN | {"attention_factor": 0.9},
    "yarn of 1": YARN | {"factor": 1.0},
}


@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("theta", [1e4, 150000.0, 1e6, 5e6])
@pytest.mark.parametrize("kind", KINDS)
def test_scalings(kind: str, theta: float, spelling: str) -> None:
    """transformers 5 has theta inside, older files beside; some say "type" for "rope_type"."""
    name, own = kind.split(",")[0].split(" ")[0], KINDS[kind]
    config = LlamaConfig(
        hidden_size=512,
        num_attention_heads=4,
        max_position_embeddings=131072,
        rope_parameters={"rope_type": name, "rope_theta": theta, **own},
    )
    want, factor = ROPE_INIT_FUNCTIONS[name](config)
    inner = {"rope_type": name, "rope_theta": theta} if spelling == "rope_parameters" else {"type": name}
    values = {spelling: inner | own, "max_position_embeddings": 131072}
    if spelling == "rope_scaling":
        values["rope_theta"] = theta
    got = Settings("config.json", values).rope(128)
    np.testing.assert_array_equal(got.inv_freq, want.numpy())
    assert got.factor == factor and not got.interleaved


@pytest.mark.parametrize("theta", [1e4, 150000.0, 1e6, 5e6, 1e7])
@pytest.mark.parametrize("dims", [2, 16, 64, 128])
def test_the_plain_kind_is_linear_by_one(dims: int, theta: float) -> None:
    config = LlamaConfig(
        hidden_size=dims * 4,
        num_attention_heads=4,
        rope_parameters={"rope_type": "linear", "rope_theta": theta, "factor": 1.0},
    )
    want, _ = ROPE_INIT_FUNCTIONS["linear"](config)
    np.testing.assert_array_equal(rope(dims, theta).inv_freq, want.numpy())


def test_a_kind_of_layer_has_its_own_where_the_file_says_so() -> None:
    values = {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "linear", "factor": 2.0},
        },
        "rope_theta": 1e5,
    }
    settings = Settings("config.json", values)
    full, sliding = (settings.rope(64, kind=f"{kind}_attention") for kind in ("full", "sliding"))
    np.testing.assert_array_equal(full.inv_freq, rope(32, 5e6).inv_freq)
    np.testing.assert_array_equal(sliding.inv_freq, rope(64, 1e5).inv_freq / 2)


def test_yarn_grows_scores_by_its_factor_twice() -> None:
    """gpt-oss: 0.1 ln 32 + 1 on q and on k."""
    attention = config_from_json("config.json", published.GPT_OSS_20B).layers[0].attention
    assert attention.scale == pytest.approx(64**-0.5 * (0.1 * np.log(32) + 1) ** 2)


def test_divisors_of_a_file_divide() -> None:
    divisors = np.array([1.0, 2.0, 8.0, 32.0], dtype=np.float32)
    got = rope(8, 1e4, divisors=divisors, interleaved=True)
    np.testing.assert_array_equal(got.inv_freq, rope(8, 1e4).inv_freq / divisors)
    assert got.interleaved
