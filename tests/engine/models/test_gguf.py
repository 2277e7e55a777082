"""GGUF files of the families: names by the gguf package's own table, logits beside transformers'."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from engine.models.families import CLOSE, FAMILIES, apart, gguf_executor, load, ours, prompt, save, theirs
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.models import GGUF_FAMILIES, gguf_name, read_config
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_engine.weights.gguf import GGUFFile

ARCHITECTURES = {"qwen3": "qwen3", "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss"}
CHANGES: dict[str, dict[str, Any]] = {"qwen3_moe": {"mlp_only_layers": []}}
IDS = prompt(150)


def write(
    path: Path,
    model: Any,
    *,
    leave_out: str = "",
    extra: str = "",
    mxfp4: bool = False,
    numbers: Mapping[str, float] = {},
) -> Path:
    """``model`` of transformers as a GGUF file, as llama.cpp's converter writes it. ``mxfp4`` stores experts'
    matrices so, and gives the model what they then are; ``numbers`` are more metadata."""
    config = model.config
    architecture = ARCHITECTURES[config.model_type]
    out = gguf.GGUFWriter(path, architecture)
    _metadata(out, config)
    for key, number in numbers.items():
        out.add_float32(f"{architecture}.{key}", number)
    for name, tensor in _tensors(model, architecture).items():
        if name == leave_out:
            continue
        if mxfp4 and name.endswith("_exps.weight"):
            raw = gguf.quants.quantize(tensor.numpy(), gguf.GGMLQuantizationType.MXFP4)
            tensor.copy_(torch.from_numpy(gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.MXFP4)))
            out.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
        else:
            out.add_tensor(name, tensor.contiguous().numpy())
    if extra:
        out.add_tensor(extra, np.zeros(8, dtype=np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def _metadata(out: gguf.GGUFWriter, config: Any) -> None:
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(config.hidden_size)
    out.add_block_count(config.num_hidden_layers)
    out.add_feed_forward_length(config.intermediate_size)
    out.add_head_count(config.num_attention_heads)
    out.add_head_count_kv(config.num_key_value_heads)
    out.add_key_length(config.head_dim)
    out.add_value_length(config.head_dim)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if config.model_type != "qwen3":
        out.add_expert_count(config.num_local_experts)
        out.add_expert_used_count(config.num_experts_per_tok)
        wide = getattr(config, "moe_intermediate_size", config.intermediate_size)
        out.add_expert_feed_forward_length(wide)
    if config.model_type == "gpt_oss":
        out.add_sliding_window(config.sliding_window)
    if config.rope_parameters["rope_type"] == "yarn":
        out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        out.add_rope_scaling_factor(config.rope_parameters["factor"])
        out.add_rope_scaling_orig_ctx_len(config.rope_parameters["original_max_position_embeddings"])


def _tensors(model: Any, architecture: str) -> dict[str, torch.Tensor]:
    """Views of the model's tensors, as the converter cuts and names them."""
    kind = next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == architecture)
    names = gguf.get_tensor_name_map(kind, model.config.num_hidden_layers)
    found: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        for part, values in _parts(name, tensor, transposed=architecture == "gpt-oss"):
            stem, _, ending = part.rpartition(".")
            if ending not in ("weight", "bias"):
                stem, ending = part, "weight"
            found[f"{names.get_name(stem)}.{ending}"] = values
    return found


def _parts(name: str, tensor: torch.Tensor, *, transposed: bool) -> list[tuple[str, torch.Tensor]]:
    """``transposed``: gpt-oss has [experts, in, out], and gate and up in turns."""
    stem, kind = name.rsplit(".", 1)
    if kind == "down_proj_bias":
        return [(f"{stem}.down_proj.bias", tensor)]
    if kind == "down_proj":
        return [(f"{stem}.down_proj.weight", tensor.mT if transposed else tensor)]
    if kind not in ("gate_up_proj", "gate_up_proj_bias"):
        return [(name, tensor)]
    if not transposed:
        gate, up = tensor.chunk(2, dim=1)
    elif kind == "gate_up_proj":
        gate, up = tensor[..., 0::2].mT, tensor[..., 1::2].mT
    else:
        gate, up = tensor[:, 0::2], tensor[:, 1::2]
    word = "bias" if kind == "gate_up_proj_bias" else "weight"
    return [(f"{stem}.gate_proj.{word}", gate), (f"{stem}.up_proj.{word}", up)]


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_logits(family: str, tmp_path: Path) -> None:
    model = save(family, tmp_path, seed=3, changes=CHANGES.get(family, {}))
    with gguf_executor(write(tmp_path / "m.gguf", model)) as made:
        assert apart(ours(made, IDS), theirs(model, IDS)) <= CLOSE


@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_logits_with_experts_in_mxfp4(family: str, tmp_path: Path) -> None:
    model = save(family, tmp_path, seed=4, changes=CHANGES.get(family, {}))
    before = theirs(model, IDS)
    with gguf_executor(write(tmp_path / "m.gguf", model, mxfp4=True)) as made:
        want = theirs(model, IDS)
        assert apart(ours(made, IDS), want) <= CLOSE < apart(before, want)


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_the_config_is_that_of_the_checkpoint(family: str, tmp_path: Path) -> None:
    model = save(family, tmp_path, changes=CHANGES.get(family, {}))
    with GGUFFile.open(write(tmp_path / "m.gguf", model)) as file, Checkpoint.open(tmp_path) as checkpoint:
        one, other = read_config(file), read_config(checkpoint)
    assert list(one.weights()) == list(other.weights())
    assert one.parameters == other.parameters == sum(p.numel() for p in load(tmp_path).parameters())
    assert one.kv_bytes_per_token == other.kv_bytes_per_token
    assert (one.family, one.context, one.tied) == (other.family, other.context, other.tied)
    for a, b in zip(one.layers, other.layers, strict=True):
        np.testing.assert_array_equal(a.attention.rope.inv_freq, b.attention.rope.inv_freq)
        assert a.attention.scale == b.attention.scale and a.attention.window == b.attention.window
        assert a.mlp == b.mlp


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_names_are_those_of_the_gguf_package(family: str, tmp_path: Path) -> None:
    model = save(family, tmp_path, changes=CHANGES.get(family, {}))
    with GGUFFile.open(write(tmp_path / "m.gguf", model)) as file:
        config = read_config(file)
        assert {gguf_name(w.name, ARCHITECTURES[family]) for w in config.weights()} == file.tensors.keys()


def test_a_tensor_too_many_or_too_few(tmp_path: Path) -> None:
    model = save("gpt_oss", tmp_path)
    with GGUFFile.open(write(tmp_path / "a.gguf", model, extra="blk.1.ffn_gate.weight")) as file:
        with pytest.raises(UnsupportedModel, match=r"blk\.1\.ffn_gate\.weight"):
            read_config(file)
    path = write(tmp_path / "b.gguf", model, leave_out="blk.2.attn_sinks.weight")
    with pytest.raises(ModelFileError, match=r"there is no tensor blk\.2\.attn_sinks\.weight"):
        with gguf_executor(path):
            pass


def test_yarn_where_the_file_says_how_fast(tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
    yarn |= {"beta_fast": 20.0, "beta_slow": 2.0}
    model = save("qwen3", tmp_path, changes={"rope_parameters": yarn})
    speeds = {"rope.scaling.yarn_beta_fast": 20.0, "rope.scaling.yarn_beta_slow": 2.0}
    with gguf_executor(write(tmp_path / "m.gguf", model, numbers=speeds)) as made:
        assert apart(ours(made, IDS), theirs(model, IDS)) <= CLOSE
    odd = write(tmp_path / "o.gguf", model, numbers={"rope.scaling.attn_factor": 1.5})
    with GGUFFile.open(odd) as file, pytest.raises(UnsupportedModel, match=r"attn_factor 1\.5; supported: 1"):
        read_config(file)


def test_every_family_with_a_gguf_architecture_is_tested() -> None:
    assert {*ARCHITECTURES, "llama", "qwen2"} == GGUF_FAMILIES.keys() <= FAMILIES.keys()
