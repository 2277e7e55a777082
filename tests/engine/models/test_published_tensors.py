"""The tensors of published files, by name, type and shape, without their data: every one is read or told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from engine.models import published
from ultra_engine.models import ModelConfig, read_config, recipes
from ultra_engine.weights.checkpoint import Checkpoint
from ultra_engine.weights.recipe import Recipe
from ultra_engine.weights.shard import Entry, Shard

Tensor = tuple[str, str, tuple[int, ...]]
"""Name, type, shape."""

Found = tuple[ModelConfig, dict[str, Recipe]]


def open_without_data(values: dict[str, Any], tensors: list[Tensor], metadata: dict[str, Any]) -> Checkpoint:
    entries = {name: Entry(name, dtype, shape) for name, dtype, shape in tensors}
    assert len(entries) == len(tensors)
    shard = cast(Shard, SimpleNamespace(path=Path("model/model.safetensors"), tensors=entries))
    return Checkpoint(Path("model"), values, metadata, {"model.safetensors": shard})


def fp8(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    yield name, "F8_E4M3", (rows, columns)
    yield name + "_scale_inv", "F32", (-(-rows // 128), columns // 128)


def mxfp4(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    yield name, "U8", (rows, columns // 2)
    yield name + "_scale", "U8", (rows, columns // 32)


def swiglu(prefix: str, wide: int, hidden: int, store: Any) -> Iterator[Tensor]:
    for name in ("gate", "up"):
        yield from store(f"{prefix}{name}_proj.weight", wide, hidden)
    yield from store(f"{prefix}down_proj.weight", hidden, wide)


def pro(experts: Any) -> Iterator[Tensor]:
    """MiMo-V2.5-Pro as its tensor table has it."""
    hidden, full = 6144, {0, 7, 15, 23, 31, 39, 47, 55, 62, 69}
    yield "model.embed_tokens.weight", "BF16", (152576, hidden)
    yield "lm_head.weight", "BF16", (152576, hidden)
    yield "model.norm.weight", "BF16", (hidden,)
    for layer in range(70):
        p = f"model.layers.{layer}."
        yield p + "input_layernorm.weight", "BF16", (hidden,)
        yield p + "post_attention_layernorm.weight", "BF16", (hidden,)
        yield from pro_attention(p + "self_attn.", layer not in full)
        if layer == 0:
            yield from swiglu(p + "mlp.", 16384, hidden, fp8)
            continue
        yield p + "mlp.gate.weight", "F32", (384, hidden)
        yield p + "mlp.gate.e_score_correction_bias", "F32", (384,)
        for expert in range(384):
            yield from swiglu(f"{p}mlp.experts.{expert}.", 2048, hidden, experts)
    for layer in range(3):
        p = f"model.mtp.layers.{layer}."
        yield p + "eh_proj.weight", "BF16", (hidden, 2 * hidden)
        for name in ("enorm", "hnorm", "input_layernorm", "pre_mlp_layernorm", "final_layernorm"):
            yield f"{p}{name}.weight", "BF16", (hidden,)
        yield from pro_attention(p + "self_attn.", True)
        yield from swiglu(p + "mlp.", 16384, hidden, fp8)


def pro_attention(prefix: str, slides: bool) -> Iterator[Tensor]:
    yield prefix + "qkv_proj.weight", "F8_E4M3", (27136, 6144)
    yield prefix + "qkv_proj.weight_scale_inv", "F32", (216, 48)
    yield prefix + "o_proj.weight", "BF16", (6144, 16384)
    if slides:
        yield prefix + "attention_sink_bias", "BF16", (128,)


def flash() -> Iterator[Tensor]:
    """MiMo-V2-Flash: split q, k and v, and the uneven scales of its full layers."""
    hidden, full = 4096, {0, 5, 11, 17, 23, 29, 35, 41, 47}
    yield "model.embed_tokens.weight", "BF16", (152576, hidden)
    yield "lm_head.weight", "BF16", (152576, hidden)
    yield "model.norm.weight", "BF16", (hidden,)
    for layer in range(48):
        p = f"model.layers.{layer}."
        own = p + "self_attn."
        yield p + "input_layernorm.weight", "BF16", (hidden,)
        yield p + "post_attention_layernorm.weight", "BF16", (hidden,)
        yield from fp8(own + "q_proj.weight", 12288, hidden)
        if layer in full:
            for name, rows, scales in (("k", 768, 8), ("v", 512, 4)):
                yield f"{own}{name}_proj.weight", "F8_E4M3", (rows, hidden)
                yield f"{own}{name}_proj.weight_scale_inv", "F32", (scales, 32)
        else:
            yield from fp8(own + "k_proj.weight", 1536, hidden)
            yield from fp8(own + "v_proj.weight", 1024, hidden)
            yield own + "attention_sink_bias", "BF16", (64,)
        yield own + "o_proj.weight", "BF16", (hidden, 8192)
        if layer == 0:
            yield from swiglu(p + "mlp.", 16384, hidden, fp8)
            continue
        yield p + "mlp.gate.weight", "F32", (256, hidden)
        yield p + "mlp.gate.e_score_correction_bias", "F32", (256,)
        for expert in range(256):
            yield from swiglu(f"{p}mlp.experts.{expert}.", 2048, hidden, fp8)


def gpt_oss() -> Iterator[Tensor]:
    hidden = 2880
    yield "model.embed_tokens.weight", "BF16", (201088, hidden)
    yield "lm_head.weight", "BF16", (201088, hidden)
    yield "model.norm.weight", "BF16", (hidden,)
    for layer in range(24):
        p = f"model.layers.{layer}."
        own, mlp = p + "self_attn.", p + "mlp."
        yield p + "input_layernorm.weight", "BF16", (hidden,)
        yield p + "post_attention_layernorm.weight", "BF16", (hidden,)
        yield own + "sinks", "BF16", (64,)
        for name, rows, columns in (
            ("q", 4096, hidden),
            ("k", 512, hidden),
            ("v", 512, hidden),
            ("o", hidden, 4096),
        ):
            yield f"{own}{name}_proj.weight", "BF16", (rows, columns)
            yield f"{own}{name}_proj.bias", "BF16", (rows,)
        yield mlp + "router.weight", "BF16", (32, hidden)
        yield mlp + "router.bias", "BF16", (32,)
        for name, rows in (("gate_up_proj", 5760), ("down_proj", hidden)):
            yield f"{mlp}experts.{name}_blocks", "U8", (32, rows, 90, 16)
            yield f"{mlp}experts.{name}_scales", "U8", (32, rows, 90)
            yield f"{mlp}experts.{name}_bias", "BF16", (32, rows)


def found_in(values: dict[str, Any], tensors: list[Tensor], metadata: dict[str, Any]) -> Found:
    checkpoint = open_without_data(values, tensors, metadata)
    config = read_config(checkpoint)
    return config, recipes(config, checkpoint)


@pytest.mark.parametrize("store", ["fp8", "mxfp4"])
def test_mimo_pro(store: str) -> None:
    """159,581 tensors, of which 48 are of layers that predict further tokens; and MXFP4 experts."""
    values = dict(published.MIMO_V25_PRO)
    if store == "mxfp4":
        stored = {"store_dtype": "mxfp4", "mxfp4_block_size": 32}
        values["quantization_config"] = values["quantization_config"] | stored
    tensors = list(pro(fp8 if store == "fp8" else mxfp4))
    assert len(tensors) == 159_581
    config, found = found_in(values, tensors, {"tp_size": 8})
    assert config.notes == ("not used: 48 tensors, for predicting further tokens",)
    assert {name: r.format.name for name, r in found.items() if name.startswith("layers.7.")} == {
        "layers.7.attn_norm.weight": "bf16",
        "layers.7.q.weight": "fp8_block",
        "layers.7.k.weight": "fp8_block",
        "layers.7.v.weight": "fp8_block",
        "layers.7.o.weight": "bf16",
        "layers.7.mlp_norm.weight": "bf16",
        "layers.7.router.weight": "f32",
        "layers.7.router.correction": "f32",
        "layers.7.experts.gate.weight": "mxfp4" if store == "mxfp4" else "fp8_block",
        "layers.7.experts.up.weight": "mxfp4" if store == "mxfp4" else "fp8_block",
        "layers.7.experts.down.weight": "mxfp4" if store == "mxfp4" else "fp8_block",
    }
    _check_sizes(config, found)


def test_mimo_flash() -> None:
    config, found = found_in(published.MIMO_V2_FLASH, list(flash()), {})
    assert config.notes == ()
    assert len(found["layers.0.k.weight"].parts) == 4  # a head is a grid of its own
    assert len(found["layers.1.k.weight"].parts) == 1
    _check_sizes(config, found)


def test_gpt_oss_20b() -> None:
    config, found = found_in(published.GPT_OSS_20B, list(gpt_oss()), {})
    assert config.notes == ()
    assert found["layers.3.experts.gate.weight"].format.name == "mxfp4"
    assert found["layers.3.experts.gate.bias"].format.name == "bf16"
    _check_sizes(config, found)


def _check_sizes(config: ModelConfig, found: dict[str, Recipe]) -> None:
    assert list(found) == [weight.name for weight in config.weights()]
    for weight in config.weights():
        assert found[weight.name].rows * found[weight.name].columns == weight.size
