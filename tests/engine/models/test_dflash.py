"""The drafter's config: taps, causality, windows, and one clear error for what it cannot be."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.models.dflash_files import BLOCK, MASK, TARGET_LAYERS, VOCAB, XIAOMI, ZLAB, save, tensors
from safetensors.torch import save_file
from ultra_engine.errors import ModelFileError, UnsupportedModel
from ultra_engine.models.dflash import (
    DrafterConfig,
    drafter_config,
    drafter_recipes,
    read_drafter,
    tap_layers,
)
from ultra_engine.models.dflash_files import draft_vocabulary, mask_embedding
from ultra_engine.models.settings import Settings
from ultra_engine.weights.checkpoint import Checkpoint


def made(values: dict[str, Any], **changes: Any) -> DrafterConfig:
    return drafter_config(Settings("drafter/config.json", values | changes))


def own(values: dict[str, Any], **changes: Any) -> DrafterConfig:
    """With changes inside ``dflash_config``; None leaves a key out."""
    inner = {k: v for k, v in (values["dflash_config"] | changes).items() if v is not None}
    return made(values, dflash_config=inner)


@pytest.mark.parametrize(
    ("target", "layers", "taps"),
    [
        (36, 5, (1, 9, 17, 25, 33)),
        (24, 5, (1, 6, 11, 16, 21)),
        (48, 5, (1, 12, 23, 34, 45)),
        (64, 5, (1, 16, 31, 46, 61)),
        (40, 5, (1, 10, 19, 28, 37)),
        (32, 5, (1, 8, 15, 22, 29)),
        (25, 3, (1, 12, 22)),  # 11.5 goes to 12
        (27, 3, (1, 12, 24)),  # 12.5 goes to 12
        (28, 1, (14,)),
        (36, 2, (1, 33)),
    ],
)
def test_taps_of_a_drafter_that_does_not_name_them(target: int, layers: int, taps: tuple[int, ...]) -> None:
    assert tap_layers(target, layers) == taps
    silent = {key: value for key, value in ZLAB["dflash_config"].items() if key != "target_layer_ids"}
    config = made(ZLAB, num_target_layers=target, num_hidden_layers=layers, dflash_config=silent)
    assert config.taps == taps


_TYPES = ["full_attention", "sliding_attention", "sliding_attention"]


@pytest.mark.parametrize(
    ("changes", "inner", "causal", "windows"),
    [
        ({}, {}, (False,) * 3, (0, 0, 0)),
        ({"layer_types": _TYPES, "sliding_window": 9}, {}, (False, True, True), (0, 9, 9)),
        ({"layer_types": _TYPES, "sliding_window": 9, "is_causal": False}, {}, (False,) * 3, (0, 9, 9)),
        ({"layer_types": _TYPES, "sliding_window": 9}, {"causal": False}, (False,) * 3, (0, 9, 9)),
        ({"is_causal": False}, {"causal": True}, (False,) * 3, (0, 0, 0)),
        ({}, {"causal": True}, (True,) * 3, (0, 0, 0)),
        ({"sliding_window": 9}, {}, (False,) * 3, (0, 0, 0)),
        ({"sliding_window": 9}, {"use_swa": True}, (False,) * 3, (9, 9, 9)),
        ({"sliding_window": 9}, {"use_swa": True, "swa_window_size": 7}, (False,) * 3, (7, 7, 7)),
        (
            {"layer_types": _TYPES, "sliding_window": 9},
            {"use_swa": True, "swa_window_size": 7},
            (False, True, True),
            (0, 9, 9),
        ),
    ],
)
def test_who_sees_whom(
    changes: dict[str, Any], inner: dict[str, Any], causal: tuple[bool, ...], windows: tuple[int, ...]
) -> None:
    config = made(ZLAB, **changes, dflash_config=ZLAB["dflash_config"] | inner)
    assert config.causal == causal
    assert tuple(layer.attention.window for layer in config.layers) == windows


def test_what_stands_inside_counts_before_what_stands_beside() -> None:
    config = own(made_values := {**ZLAB, "block_size": 16, "mask_token_id": 3}, block_size=4)
    assert (config.block, config.mask_token) == (4, MASK)
    assert own(made_values, mask_token_id=None).mask_token == 3
    assert made({key: value for key, value in ZLAB.items() if key != "block_size"}).block == 16


def test_xiaomis_layout() -> None:
    config = made(XIAOMI)
    assert config.taps == (0, 7, 12, TARGET_LAYERS - 1) and config.block == BLOCK
    for layer in config.layers:
        attention = layer.attention
        assert (attention.window, attention.sinks, attention.value_scale) == (8, True, 0.612)
        assert attention.rope.dims == 8 and attention.qk_norm and not attention.bias
        assert float(attention.rope.inv_freq[1]) == pytest.approx(1e4 ** (-2 / 8))


@pytest.mark.parametrize("inside", [False, True])
def test_another_theta_may_be_asked_for(inside: bool, tmp_path: Path) -> None:
    values = {**XIAOMI, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}} if inside else XIAOMI
    save(tmp_path, values, tensors(XIAOMI))
    with Checkpoint.open(tmp_path) as checkpoint:
        for asked, theta in ((None, 1e4), (5e6, 5e6)):
            rope = read_drafter(checkpoint, theta=asked).layers[0].attention.rope
            assert float(rope.inv_freq[1]) == pytest.approx(theta ** (-2 / 8))


def test_published_sizes() -> None:
    """Qwen3-8B's drafter has 1.049 B numbers, Xiaomi's for V2.5 has 2,936,114,304 bytes of BF16."""
    qwen = {
        **ZLAB,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 5,
        "vocab_size": 151936,
    }
    qwen |= {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "num_target_layers": 36}
    config = made(qwen, dflash_config={"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]})
    assert round(config.parameters / 1e6) == 1049 and len(list(config.weights())) == 58
    xiaomi = {**XIAOMI, "hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 5}
    xiaomi |= {"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "num_target_layers": 48}
    inner = XIAOMI["dflash_config"] | {"mask_token_id": 151675, "target_layer_ids": [0, 11, 23, 35, 47]}
    config = made(xiaomi, vocab_size=152576, dflash_config=inner)
    assert 2 * config.parameters == 2_936_114_304 and len(list(config.weights())) == 63
    assert config.kv_bytes_per_token == 5 * 2 * 2 * 8 * 128


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no mask": ({}, {"mask_token_id": None}, "mask_token_id is None, not a token of 70"),
    "a mask beyond the vocabulary": ({}, {"mask_token_id": 70}, "mask_token_id is 70"),
    "a tap beyond the target": ({}, {"target_layer_ids": [1, 20]}, "layers of the target, 0 to 19"),
    "a tap before the target": ({}, {"target_layer_ids": [-1]}, "layers of the target, 0 to 19"),
    "no taps": ({}, {"target_layer_ids": []}, "target_layer_ids is []"),
    "a target too low for the formula": (
        {"num_target_layers": 2},
        {"target_layer_ids": None},
        "of the target",
    ),
    "no target": ({"num_target_layers": None}, {}, "num_target_layers is None"),
    "a block of the anchor alone": ({"block_size": 1}, {}, "block_size is 1"),
    "no window": ({"layer_types": ["sliding_attention"] * 3}, {}, "sliding_window is None"),
    "too few kinds": ({"layer_types": ["full_attention"]}, {}, "layer_types"),
    "DFlash 2": ({}, {"conv_kernel_size": 2}, "a DFlash 2 drafter; supported: those of the first kind"),
    "another class": ({"architectures": ["DFlashLagunaForCausalLM"]}, {}, "supported: DFlashDraftModel"),
    "heads": ({"num_key_value_heads": 3}, {}, "4 heads do not share 3 KV heads"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_told_in_a_line(case: str) -> None:
    changes, inner, reason = WRONG[case]
    with pytest.raises((ModelFileError, UnsupportedModel), match=re.escape(reason)) as error:
        own(ZLAB | changes, **inner)
    assert "drafter/config.json" in str(error.value) and "\n" not in str(error.value)


def test_no_drafter_at_all() -> None:
    with pytest.raises(UnsupportedModel, match="no DFlash drafter"):
        made({key: value for key, value in ZLAB.items() if key not in ("architectures", "dflash_config")})


@pytest.mark.parametrize("prefix", ["", "model."])
def test_names_with_and_without_a_prefix(prefix: str, tmp_path: Path) -> None:
    weights = tensors(XIAOMI)
    save(tmp_path, XIAOMI, {prefix + name: tensor for name, tensor in weights.items()})
    with Checkpoint.open(tmp_path) as checkpoint:
        config = read_drafter(checkpoint)
        found = drafter_recipes(config, checkpoint)
        assert {name: r.rows * r.columns for name, r in found.items()} == {
            weight.name: weight.size for weight in config.weights()
        }
        read = found["layers.1.sinks.weight"].read(checkpoint)
    want = weights["layers.1.self_attn.attention_sink_bias"]
    assert torch.equal(read.format.rows(read.data)[0], want)


@pytest.mark.parametrize(
    "extra", ["lm_head.weight", "candidate_selector.predecessor_codebook", "layers.0.x.bias"]
)
def test_tensors_too_many_and_too_few(extra: str, tmp_path: Path) -> None:
    weights = tensors(ZLAB)
    save(tmp_path, ZLAB, weights | {extra: torch.zeros(2, 2)})
    with Checkpoint.open(tmp_path) as checkpoint, pytest.raises(UnsupportedModel, match=re.escape(extra)):
        drafter_recipes(read_drafter(checkpoint), checkpoint)
    del weights["layers.2.self_attn.k_norm.weight"]
    save(tmp_path, ZLAB, weights)
    with (
        Checkpoint.open(tmp_path) as checkpoint,
        pytest.raises(ModelFileError, match=r"2\.self_attn\.k_norm"),
    ):
        drafter_recipes(read_drafter(checkpoint), checkpoint)


def test_the_mask_has_an_embedding_of_its_own_or_not(tmp_path: Path) -> None:
    config, embedding = made(ZLAB), torch.arange(32).bfloat16()
    assert mask_embedding(tmp_path, config) is None
    torch.save({"mask_token_id": MASK, "embedding": embedding}, tmp_path / "mask_embedding.pt")
    found = mask_embedding(tmp_path, config)
    assert found is not None and found.dtype == torch.float32 and torch.equal(found, embedding.float())


class _Runs:
    """Pickled, it makes a folder when it is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self._folder,)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"embedding": torch.zeros(31)}, "embedding is [31], not [32]"),
        ({"embedding": torch.zeros(32, dtype=torch.int64)}, "embedding is [32]"),
        ({"embedding": torch.zeros(32), "mask_token_id": 5}, "it is of token 5, the config's mask is 69"),
        ({"embedding": [0.0] * 32}, "there is no tensor embedding"),
        ([torch.zeros(32)], "there is no tensor embedding"),
        (b"", "no mask embedding"),
        (b"PK\3\4" + bytes(100), "no mask embedding"),
        (b"\x80\4" + bytes(50), "no mask embedding"),
        (
            {"embedding": torch.zeros(32), "per_position": torch.zeros(5, 32)},
            "an embedding for each position",
        ),
    ],
)
def test_mask_embeddings_that_are_none(content: Any, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "mask_embedding.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises((ModelFileError, UnsupportedModel), match=re.escape(reason)) as error:
        mask_embedding(tmp_path, made(ZLAB))
    assert str(path) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("plain", [False, True])
def test_pickled_code_is_not_run(plain: bool, tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "mask_embedding.pt"
    content = {"embedding": torch.zeros(32), "more": _Runs(ran)}
    if plain:
        path.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, path)
    with pytest.raises(ModelFileError, match="no mask embedding"):
        mask_embedding(tmp_path, made(ZLAB))
    assert not ran.exists()
    torch.load(path, weights_only=False) if not plain else pickle.loads(path.read_bytes())
    assert ran.exists()  # whoever reads it carelessly runs it


def test_the_tokens_that_it_drafts(tmp_path: Path) -> None:
    config = made(ZLAB)
    assert draft_vocabulary(tmp_path, config) is None
    tokens = torch.tensor([0, 3, 4, VOCAB - 1], dtype=torch.int32)
    save_file({"d2t": tokens}, tmp_path / "draft_vocab.safetensors")
    found = draft_vocabulary(tmp_path, config)
    assert found is not None and found.dtype == torch.int64 and torch.equal(found, tokens.long())


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([0, 2, 1]),
        torch.tensor([0, 0]),
        torch.tensor([-1, 3]),
        torch.tensor([3, VOCAB]),
        torch.tensor([[0, 1]]),
        torch.tensor([0.0, 1.0]),
        torch.zeros(0, dtype=torch.int64),
    ],
)
def test_tokens_that_cannot_be(tensor: torch.Tensor, tmp_path: Path) -> None:
    save_file({"d2t": tensor}, tmp_path / "draft_vocab.safetensors")
    with pytest.raises(ModelFileError, match=r"draft_vocab\.safetensors: .*d2t"):
        draft_vocabulary(tmp_path, made(ZLAB))
