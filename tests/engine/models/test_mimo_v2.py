"""MiMo-V2 as it is published, beside an oracle in float64: fused q, k and v, FP8 grids, MXFP4 experts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engine.models import mimo_files
from engine.models.families import CLOSE, apart, cpu, executor, ours
from engine.models.mimo_files import Files
from engine.models.mimo_oracle import Shape, logits
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.models import read_config, recipes
from ultra_engine.weights.checkpoint import Checkpoint

PRO = Shape()
"""As many KV heads in full layers as in sliding ones, one to each chunk of the fused tensor; in a chunk of
96 + 48 + 32 rows a key lies across the squares of its grid."""

SMALL = Shape(kv_heads=(2, 4), value_scale=0.707, thetas=(1e7, 1e4), eps=1e-6)
"""Twice as many in sliding layers."""

FLASH = Shape(
    sliding=(False, True, False),
    hidden=128,
    heads=4,
    kv_heads=(2, 4),
    key=192,
    value=128,
    rotated=64,
    narrow=128,
)
"""Heads of the published size: what shares a square of scales depends on it."""

IDS = np.random.default_rng(3).integers(0, PRO.vocab, 60).tolist()


def write(folder: Path, shape: Shape, family: str, store: str, chunks: int) -> tuple[Path, Files]:
    files = mimo_files.build(shape, store, chunks=chunks)
    metadata = {"tp_size": chunks} if chunks else {}
    return mimo_files.save(folder, files, mimo_files.config(shape, family, store), metadata), files


@pytest.mark.parametrize("store", ["bf16", "fp8", "mxfp4"])
@pytest.mark.parametrize(("shape", "chunks"), [(PRO, 4), (SMALL, 2)], ids=["pro", "small"])
def test_fused_checkpoints(shape: Shape, chunks: int, store: str, tmp_path: Path) -> None:
    folder, files = write(tmp_path, shape, "mimo_v2", store, chunks)
    want = logits(files.meaning, shape, IDS, shape.window).numpy()
    with executor(folder) as made:
        assert apart(ours(made, IDS), want) <= CLOSE


@pytest.mark.parametrize("store", ["bf16", "fp8", "mxfp4"])
def test_flash_and_its_scales_of_keys_and_values_together(store: str, tmp_path: Path) -> None:
    folder, files = write(tmp_path, FLASH, "mimo_v2_flash", store, 0)
    if store != "bf16":
        own = "model.layers.0.self_attn."
        grids = [len(files.tensors[f"{own}{name}_proj.weight_scale_inv"]) for name in "kv"]
        assert grids == [4, 2]  # v alone would have 2 as well, but k 3
    want = logits(files.meaning, FLASH, IDS, FLASH.window).numpy()
    with executor(folder) as made:
        assert apart(ours(made, IDS), want) <= CLOSE


@pytest.mark.parametrize("more", [0, 1])
def test_the_window_counts_its_token_or_not(more: int, tmp_path: Path) -> None:
    folder, files = write(tmp_path, PRO, "mimo_v2", "bf16", 4)
    want = logits(files.meaning, PRO, IDS, PRO.window + more).numpy()
    with executor(folder, change=lambda config: config.with_window(PRO.window + more)) as made:
        assert apart(ours(made, IDS), want) <= CLOSE
    with executor(folder, change=lambda config: config.with_window(PRO.window + 1 - more)) as made:
        assert apart(ours(made, IDS), want) > 100 * CLOSE


def test_chunks_of_a_prompt_give_the_same_bits_on_the_cpu(tmp_path: Path) -> None:
    folder, files = write(tmp_path, PRO, "mimo_v2", "mxfp4", 4)
    with executor(folder, cpu, tiles=8) as made:
        once = ours(made, IDS)
        np.testing.assert_array_equal(ours(made, IDS, [1, 19, 7, 33]), once)
        np.testing.assert_array_equal(ours(made, IDS, [1] * len(IDS)), once)


def test_without_an_index_there_is_a_chunk_for_every_kv_head(tmp_path: Path) -> None:
    files = mimo_files.build(SMALL, "fp8", chunks=2)
    folder = mimo_files.save(tmp_path, files, mimo_files.config(SMALL, "mimo_v2", "fp8"), {})
    want = logits(files.meaning, SMALL, IDS, SMALL.window).numpy()
    with executor(folder) as made:
        assert apart(ours(made, IDS), want) <= CLOSE


@pytest.mark.parametrize("tp_size", [3, 8, 0, "two", None])
def test_chunks_that_cannot_be(tp_size: object, tmp_path: Path) -> None:
    files = mimo_files.build(PRO, "fp8", chunks=4)
    folder = mimo_files.save(tmp_path, files, mimo_files.config(PRO, "mimo_v2", "fp8"), {"tp_size": tp_size})
    with Checkpoint.open(folder) as checkpoint, pytest.raises(ModelFileError, match="tp_size"):
        read_config(checkpoint)


def test_chunks_of_another_number_are_seen_in_the_grid(tmp_path: Path) -> None:
    files = mimo_files.build(PRO, "fp8", chunks=4)
    folder = mimo_files.save(tmp_path, files, mimo_files.config(PRO, "mimo_v2", "fp8"), {"tp_size": 2})
    with Checkpoint.open(folder) as checkpoint, pytest.raises(ModelFileError, match="qkv_proj.weight_scale"):
        read_config(checkpoint)


def test_what_predicts_further_tokens_or_sees_is_left_out_and_told(tmp_path: Path) -> None:
    files = mimo_files.build(PRO, "mxfp4", chunks=4)
    for name in ("enorm.weight", "eh_proj.weight", "self_attn.attention_sink_bias"):
        files.tensors[f"model.mtp.layers.0.{name}"] = torch.zeros(8)
    for name in ("visual.patch_embed.weight", "audio_encoder.conv.weight", "speech_embeddings.0.weight"):
        files.tensors[name] = torch.zeros(8)
    folder = mimo_files.save(tmp_path, files, mimo_files.config(PRO, "mimo_v2", "mxfp4"), {"tp_size": 4})
    with Checkpoint.open(folder) as checkpoint:
        notes = read_config(checkpoint).notes
    assert notes == (
        "not used: 3 tensors, for images and sound",
        "not used: 3 tensors, for predicting further tokens",
    )


@pytest.mark.parametrize(
    "name",
    ["self_attn.qkv_proj.bias", "self_attn.q_norm.weight", "mlp.shared_experts.gate_proj.weight"],
)
def test_a_tensor_that_would_matter_is_no_small_thing(name: str, tmp_path: Path) -> None:
    files = mimo_files.build(PRO, "bf16", chunks=4)
    files.tensors[f"model.layers.1.{name}"] = torch.zeros(8)
    folder = mimo_files.save(tmp_path, files, mimo_files.config(PRO, "mimo_v2", "bf16"), {"tp_size": 4})
    with Checkpoint.open(folder) as checkpoint, pytest.raises(UnsupportedModel, match=name.split(".")[-2]):
        read_config(checkpoint)


def test_experts_are_not_clamped(tmp_path: Path) -> None:
    """gpt-oss's clamp at 7 makes MiMo repeat itself: gates far beyond it have to stay."""
    loud = replace(PRO, value_scale=1.0)
    files = mimo_files.build(loud, "bf16", chunks=4)
    for name, tensor in files.tensors.items():
        if ".experts." in name and "down" not in name:
            tensor *= 16
            layer, expert, what = name.split(".")[2], int(name.split(".")[5]), name.split(".")[6][:-5]
            files.meaning[f"{layer}.{what}"][expert] *= 16
    folder = mimo_files.save(tmp_path, files, mimo_files.config(loud, "mimo_v2", "bf16"), {"tp_size": 4})
    want = logits(files.meaning, loud, IDS, loud.window).numpy()
    with Checkpoint.open(folder) as checkpoint:
        assert set(recipes(read_config(checkpoint), checkpoint))
    with executor(folder) as made:
        assert apart(ours(made, IDS), want) <= CLOSE
