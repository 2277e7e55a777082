"""What a config.json makes: the counts of published models, and one clear error for what cannot be."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.models import published
from engine.models.families import CLOSE, VOCAB, apart, executor, ours, prompt, save, theirs
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from ultra_engine.errors import ModelFileError, UltraError, UnsupportedModel
from ultra_engine.models import FAMILIES, ModelConfig, config_from_json, lower, read_config
from ultra_engine.models.config import Role
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_kernels.program import Kind

COUNTS = {
    "LLAMA_1B": 1_235_814_400,
    "QWEN25_HALF_B": 494_032_768,
    "QWEN3_4B": 4_022_468_096,
    "QWEN3_8B": 8_190_735_360,
    "QWEN3_30B_A3B": 30_532_122_624,
    "GPT_OSS_20B": 20_914_757_184,
}
"""Parameters of the published files."""


def made(values: dict[str, Any], **changes: Any) -> ModelConfig:
    return config_from_json("model/config.json", values | changes)


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_those_of_the_published_files(name: str) -> None:
    assert made(getattr(published, name)).parameters == COUNTS[name]


def test_the_parameters_of_mimo_pro_to_the_last_scale() -> None:
    """The FP8 files have 1,023,244,718,976 numbers: the model, three layers that predict further tokens, and
    the scales of both."""
    config = made(published.MIMO_V25_PRO)
    hidden, fused, grid = 6144, 27136, 216 * 48
    dense = 3 * 16384 * hidden
    further = 2 * hidden * hidden + fused * hidden + 16384 * hidden + dense + 5 * hidden + 128
    scales = 73 * grid + 4 * 3 * 128 * 48 + 69 * 384 * 3 * 16 * 48
    assert config.parameters + 3 * further + scales == 1_023_244_718_976
    assert round(config.active_parameters / 1e9) == 42


def test_active_parameters() -> None:
    """309B-A15B, 30B-A3B; a dense model is active as a whole."""
    flash = made(published.MIMO_V2_FLASH)
    assert (round(flash.parameters / 1e9), round(flash.active_parameters / 1e9)) == (309, 15)
    assert round(made(published.QWEN3_30B_A3B).active_parameters / 1e8) == 34
    assert made(published.QWEN3_4B).active_parameters == COUNTS["QWEN3_4B"]


def test_bytes_of_keys_and_values() -> None:
    """Every position of a sliding layer counts in what a token adds, only its window in what many need."""
    pro = made(published.MIMO_V25_PRO)
    assert pro.kv_bytes_per_token == 70 * 2 * 8 * (192 + 128) == pro.kv_bytes(1)
    assert pro.kv_bytes(4096) == 2 * 8 * (192 + 128) * (10 * 4096 + 60 * 128)
    assert made(published.QWEN3_8B).kv_bytes_per_token == 36 * 2 * 2 * 8 * 128


def test_mimo_rotates_64_of_192_dimensions_with_a_theta_of_its_own_where_it_slides() -> None:
    for values, theta in ((published.MIMO_V2_FLASH, 5e6), (published.MIMO_V25_PRO, 1e7)):
        full, sliding = (made(values).layers[layer].attention for layer in (0, 1))
        for attention, base in ((full, theta), (sliding, 1e4)):
            assert attention.rope.dims == 64
            assert float(attention.rope.inv_freq[1]) == pytest.approx(base ** (-2 / 64), rel=1e-6)
        assert (full.window, sliding.window, full.sinks, sliding.sinks) == (0, 128, False, True)
        assert full.scale == sliding.scale == 192**-0.5


def test_kv_heads_where_mimo_slides_are_read_and_guessed_for_flash_alone() -> None:
    """Twice those of a full layer is right for Flash and wrong for Pro."""
    for family, values, guess in (
        ("mimo_v2_flash", published.MIMO_V2_FLASH, 8),
        ("mimo_v2", published.MIMO_V25_PRO, 8),
    ):
        assert made(values).family == family
        silent = {key: value for key, value in values.items() if key != "swa_num_key_value_heads"}
        assert made(silent).layers[1].attention.kv_heads == guess
        assert made(values, swa_num_key_value_heads=2).layers[1].attention.kv_heads == 2


def test_gpt_oss_slides_in_every_other_layer_from_the_first() -> None:
    silent = {key: value for key, value in published.GPT_OSS_20B.items() if key != "layer_types"}
    for values in (published.GPT_OSS_20B, silent):
        windows = [layer.attention.window for layer in made(values).layers]
        assert windows == [128, 0] * 12


@pytest.mark.parametrize("family", FAMILIES)
def test_the_program_has_the_weights_of_the_config_in_order_of_use(family: str) -> None:
    config = made(published.ALL[family], vocab_size=VOCAB)
    buffers = {buffer.name: buffer.shape for buffer in lower(config).buffers if buffer.kind is Kind.WEIGHT}
    assert buffers == {weight.name: weight.shape for weight in config.weights()}
    roles = {weight.role for weight in config.weights()}
    expected = {Role.EMBEDDING, Role.ATTENTION, Role.NORM} | ({Role.HEAD} if not config.tied else set())
    assert roles >= expected and (Role.HEAD in roles) is not config.tied


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such family": ("qwen3", {"model_type": "mamba"}, "is a 'mamba' model; supported families: gpt_oss"),
    "no family": ("qwen3", {"model_type": 3}, "model_type is 3"),
    "heads": ("qwen3", {"num_key_value_heads": 5}, "32 heads do not share 5 KV heads evenly"),
    "sliding heads": ("mimo_v2", {"swa_num_key_value_heads": 7}, "128 heads do not share 7 KV heads"),
    "no layers": ("llama", {"num_hidden_layers": 0}, "num_hidden_layers is 0, not 1 to 512"),
    "layers without end": ("llama", {"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
    "a number as text": ("llama", {"hidden_size": "2048"}, "hidden_size is '2048'"),
    "true as a number": ("llama", {"hidden_size": True}, "hidden_size is True"),
    "nothing": ("qwen2", {"intermediate_size": None}, "intermediate_size is None"),
    "activation": ("qwen3", {"hidden_act": "gelu"}, "hidden_act 'gelu'; supported: silu"),
    "MLP biases": ("llama", {"mlp_bias": True}, "mlp_bias; supported"),
    "more than all experts": ("qwen3_moe", {"num_experts_per_tok": 129}, "num_experts_per_tok is 129"),
    "layer types": ("gpt_oss", {"layer_types": ["full_attention"] * 3}, "layer_types"),
    "kinds of layers": ("gpt_oss", {"layer_types": ["linear_attention"] * 24}, "layer_types"),
    "pattern": ("mimo_v2", {"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern"),
    "no pattern": ("mimo_v2", {"hybrid_layer_pattern": None}, "hybrid_layer_pattern is None"),
    "sparse layers": ("mimo_v2", {"moe_layer_freq": [0]}, "moe_layer_freq"),
    "groups of experts": ("mimo_v2", {"n_group": 4}, "n_group above 1"),
    "shared experts": ("mimo_v2", {"n_shared_experts": 1}, "shared experts"),
    "scoring": ("mimo_v2", {"scoring_func": "softmax"}, "scoring_func 'softmax'; supported: sigmoid"),
    "part of a head": ("mimo_v2", {"partial_rotary_factor": 0.33}, "partial_rotary_factor is 0.33"),
    "scaling": ("qwen3", {"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "'longrope'; supported"),
    "scaling by nothing": ("qwen3", {"rope_scaling": {"type": "linear"}}, "factor is None"),
    "scaling of a kind": ("qwen3", {"rope_scaling": {"type": ["yarn"], "factor": 2.0}}, "supported: default"),
    "a theta that does not turn": ("qwen3", {"rope_theta": 1}, "rope_theta is 1.0, not above 1"),
    "no object": ("qwen3", {"rope_scaling": "yarn"}, "rope_scaling is 'yarn', not an object"),
    "partial YaRN": (
        "qwen3",
        {"partial_rotary_factor": 0.5, "rope_scaling": {"type": "yarn", "factor": 2.0}},
        "YaRN on a part of the head",
    ),
    "quantised otherwise": ("qwen3", {"quantization_config": {"quant_method": "awq"}}, "quant_method 'awq'"),
    "FP8 by channel": ("mimo_v2", {"quantization_config": {"quant_method": "fp8"}}, "FP8 in blocks of None"),
    "MXFP4 by 16": (
        "mimo_v2",
        {
            "quantization_config": published.MIMO_V25_PRO["quantization_config"]
            | {"store_dtype": "mxfp4", "mxfp4_block_size": 16}
        },
        "MXFP4 in blocks of 16",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_told_in_a_line(case: str) -> None:
    family, changes, reason = WRONG[case]
    with pytest.raises((ModelFileError, UnsupportedModel), match=re.escape(reason)) as error:
        made(published.ALL[family], **changes)
    assert "model/config.json" in str(error.value) and "\n" not in str(error.value)


_SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(allow_nan=True),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(-1, 3), st.text(max_size=3)), max_size=80),
)
_NAMES = ["type", "rope_type", "factor", "rope_theta", "quant_method", "original_max_position_embeddings"]
_KINDS = st.sampled_from(["yarn", "llama3", "linear", "fp8", "mxfp4", 0.0, 1, 2.0])
_JUNK = _SCALAR | st.dictionaries(st.sampled_from(_NAMES), _KINDS | _SCALAR)


@given(st.sampled_from(sorted(published.ALL)), st.data())
def test_no_config_crashes(family: str, data: st.DataObject) -> None:
    values = dict(published.ALL[family])
    for key in data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3)):
        value = data.draw(_JUNK)
        inner = values[key]
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            values[key] = inner | {data.draw(st.sampled_from(sorted(inner))): value}
        else:
            values[key] = value
    try:
        config = made(values)
    except UltraError:
        return
    assert config.parameters > 0 and config.kv_bytes_per_token > 0


def test_a_head_that_nobody_speaks_of_is_tied_if_it_is_not_there(tmp_path: Path) -> None:
    for tied in (False, True):
        folder = tmp_path / str(tied)
        save("qwen3", folder, changes={"tie_word_embeddings": tied})
        values = json.loads((folder / "config.json").read_text())
        del values["tie_word_embeddings"]
        (folder / "config.json").write_text(json.dumps(values))
        with Checkpoint.open(folder) as checkpoint:
            assert read_config(checkpoint).tied is tied


def test_a_tied_model_that_brings_a_head_does_not_use_it(tmp_path: Path) -> None:
    model, ids = save("qwen3", tmp_path), prompt(40)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors |= {
        "lm_head.weight": torch.zeros(VOCAB, 64),
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(12),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    with Checkpoint.open(tmp_path) as checkpoint:
        assert read_config(checkpoint).notes == ("not used: 1 tensor, the head is the embedding table",)
    with executor(tmp_path) as got:
        assert apart(ours(got, ids), theirs(model, ids)) <= CLOSE


def test_experts_in_one_tensor_as_transformers_has_them_in_memory(tmp_path: Path) -> None:
    model, ids = save("qwen3_moe", tmp_path), prompt(60)
    tensors = {name: t.contiguous() for name, t in model.state_dict().items()}
    assert "model.layers.0.mlp.experts.gate_up_proj" in tensors
    save_file(tensors, tmp_path / "model.safetensors")
    with executor(tmp_path) as got:
        assert apart(ours(got, ids), theirs(model, ids)) <= CLOSE


@pytest.mark.parametrize("name", ["self_attn.q_proj.bias", "mlp.gate_proj.bias", "self_attn.sinks"])
def test_a_tensor_that_would_change_the_results_is_refused(name: str, tmp_path: Path) -> None:
    save("llama", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(tensors | {f"model.layers.2.{name}": torch.zeros(4)}, tmp_path / "model.safetensors")
    with Checkpoint.open(tmp_path) as checkpoint:
        with pytest.raises(UnsupportedModel, match=r"model\.safetensors: tensor 'model\.layers\.2\."):
            read_config(checkpoint)
