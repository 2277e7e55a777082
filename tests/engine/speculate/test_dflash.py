"""What a drafter computes: z-lab's model beside ours over several rounds, and Xiaomi's layout in float64."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engine.models.dflash_files import (
    BLOCK,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    MASK,
    VOCAB,
    XIAOMI,
    ZLAB,
    save,
    tensors,
)
from torch import Tensor
from ultra_engine.models.dflash import DrafterConfig, drafter_recipes, read_drafter
from ultra_engine.speculate.dflash import Borrowed, Context, draft_logits, inject
from ultra_engine.weights.checkpoint import Checkpoint

PROMPT, ACCEPTED = 23, [3, 0, BLOCK - 1, 1, 2]
"""Positions before the first block, and how many of each block are then accepted."""

_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
_MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
_SLIDING = {"layer_types": _MIXED, "use_sliding_window": True}

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "biases and yarn, as for gpt-oss": {"attention_bias": True, "rope_parameters": _YARN},
    "sliding layers, causal": _SLIDING | {"sliding_window": 10},
    "sliding layers, seeing both ways": _SLIDING | {"sliding_window": 4, "is_causal": False},
    "causal": {"is_causal": True},
    "scaled": {
        "dflash_config": ZLAB["dflash_config"]
        | {"input_embedding_scale": 1.7, "output_multiplier": 0.3, "final_logit_softcapping": 2.0}
    },
}


def load(folder: Path) -> tuple[DrafterConfig, dict[str, Tensor]]:
    """By our reader, float32, shaped as the config says."""
    with Checkpoint.open(folder) as checkpoint:
        config = read_drafter(checkpoint)
        packed = {name: r.read(checkpoint) for name, r in drafter_recipes(config, checkpoint).items()}
    shapes = {weight.name: weight.shape for weight in config.weights()}
    return config, {name: p.format.rows(p.data).reshape(shapes[name]) for name, p in packed.items()}


def borrowed(seed: int = 1, **more: Tensor) -> Borrowed:
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(VOCAB, HIDDEN, generator=generator)
    return Borrowed(embedding, torch.randn(VOCAB, HIDDEN, generator=generator) * HIDDEN**-0.5, **more)


def features(rows: int, seed: int) -> Tensor:
    return torch.randn(rows, 4 * HIDDEN, generator=torch.Generator().manual_seed(seed))


class Theirs:
    """z-lab's model with its own cache."""

    def __init__(self, folder: Path, values: Mapping[str, Any], target: Borrowed) -> None:
        from dflash import model
        from transformers.models.qwen3 import Qwen3Config

        self._of, config = model, Qwen3Config(**values)
        config._attn_implementation = "sdpa"
        self._model = model.DFlashDraftModel(config).eval()
        missing, unexpected = self._model.load_state_dict(tensors(dict(values)), strict=False)
        assert not missing and not unexpected
        self._cache, self._target = model._make_cache(config), target

    def draft(self, taps: Tensor, start: int, anchor: int, block: int) -> Tensor:
        scale = float(self._of._draft_value(self._model.config, "input_embedding_scale", 1.0))
        ids = torch.tensor([anchor] + [MASK] * (block - 1))
        with torch.inference_mode():
            hidden = self._model(
                target_hidden=taps[None],
                noise_embedding=self._target.embedding[ids][None] * scale,
                position_ids=torch.arange(start - len(taps), start + block)[None],
                past_key_values=self._cache,
                use_cache=True,
            )
            self._of._crop_to(self._cache, start)
            head = torch.nn.functional.linear
            return self._model.compute_logits(hidden[:, 1 - block :], lambda h: head(h, self._target.head))[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_rounds_beside_z_labs_model(variant: str, tmp_path: Path) -> None:
    pytest.importorskip("dflash.model", reason="pip install --no-deps dflash==0.1.0")
    values = {**ZLAB, **VARIANTS[variant]}
    config, weights = load(save(tmp_path, values, tensors(values)))
    target, context = borrowed(), Context()
    other, start, fresh = Theirs(tmp_path, values, target), PROMPT, PROMPT
    for number, accepted in enumerate(ACCEPTED):
        taps, anchor = features(fresh, number), 5 + number
        inject(config, weights, context, taps)
        assert context.length == start
        block = BLOCK - 2 if number == 3 else BLOCK
        got = draft_logits(config, weights, target, context, anchor, block)
        want = other.draft(taps, start, anchor, block)
        assert got.shape == want.shape == (block - 1, VOCAB)
        assert float((got - want).abs().max()) <= 1e-4 * float(want.abs().max())
        assert torch.equal(got.argmax(-1), want.argmax(-1))
        fresh = accepted + 1
        start += fresh


@pytest.mark.parametrize("values", [ZLAB, XIAOMI], ids=["z-lab", "xiaomi"])
def test_both_layouts_in_float64(values: dict[str, Any], tmp_path: Path) -> None:
    config, weights = load(save(tmp_path, values, tensors(values)))
    mask = torch.randn(HIDDEN, generator=torch.Generator().manual_seed(9))
    target, context = borrowed(mask=mask), Context()
    taps = features(PROMPT, 0)
    inject(config, weights, context, taps)
    got = draft_logits(config, weights, target, context, 11)
    want = _oracle(values, taps.numpy(), target, 11)
    assert np.abs(got.numpy() - want).max() <= 1e-5 * np.abs(want).max()


def _oracle(values: dict[str, Any], taps: np.ndarray, target: Borrowed, anchor: int) -> np.ndarray:
    """The formulas, position by position; nothing here is the engine's."""
    w = {name: tensor.double().numpy() for name, tensor in tensors(values).items()}
    own, eps = values["dflash_config"], values["rms_norm_eps"]
    window, start = own.get("swa_window_size", 10**9), len(taps)
    turned = int(HEAD_DIM * values.get("partial_rotary_factor", 1.0))

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * w[name + ".weight"]

    def rotate(x: np.ndarray, position: int) -> np.ndarray:
        half, out = turned // 2, x.copy()
        for i in range(half):
            angle = position * values["rope_theta"] ** (-2 * i / turned)
            a, b = x[..., i], x[..., i + half]
            out[..., i] = a * np.cos(angle) - b * np.sin(angle)
            out[..., i + half] = b * np.cos(angle) + a * np.sin(angle)
        return out

    states = norm(taps.astype(np.float64) @ w["fc.weight"].T, "hidden_norm")
    assert target.mask is not None
    x = np.stack([target.embedding[anchor].double().numpy()] + [target.mask.double().numpy()] * (BLOCK - 1))
    for layer in range(LAYERS):
        p = f"layers.{layer}."

        def key_value(h: np.ndarray, position: int, p: str = p) -> tuple[np.ndarray, np.ndarray]:
            k = (w[p + "self_attn.k_proj.weight"] @ h).reshape(KV_HEADS, HEAD_DIM)
            v = (w[p + "self_attn.v_proj.weight"] @ h).reshape(KV_HEADS, HEAD_DIM)
            scale = own.get("attention_value_scale", 1.0)
            return rotate(norm(k, p + "self_attn.k_norm"), position), v * scale

        h = norm(x, p + "input_layernorm")
        pairs = [key_value(row, j) for j, row in enumerate(states)]
        pairs += [key_value(row, start + r) for r, row in enumerate(h)]
        mixed = np.zeros((BLOCK, HEADS, HEAD_DIM))
        for r in range(BLOCK):
            q = (w[p + "self_attn.q_proj.weight"] @ h[r]).reshape(HEADS, HEAD_DIM)
            q = rotate(norm(q, p + "self_attn.q_norm"), start + r)
            near = [j for j in range(len(pairs)) if abs(start + r - j) < window]
            for head in range(HEADS):
                group = head // (HEADS // KV_HEADS)
                powers = [np.exp(q[head] @ pairs[j][0][group] * HEAD_DIM**-0.5) for j in near]
                total = sum(powers)
                if own.get("attention_sink_bias"):
                    total += np.exp(w[p + "self_attn.attention_sink_bias"][head])
                for power, j in zip(powers, near, strict=True):
                    mixed[r, head] += power / total * pairs[j][1][group]
        x = x + mixed.reshape(BLOCK, -1) @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, p + "post_attention_layernorm")
        gate = h @ w[p + "mlp.gate_proj.weight"].T
        up = h @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[p + "mlp.down_proj.weight"].T
    return norm(x, "norm")[1:] @ target.head.double().numpy().T


def test_context_in_pieces_and_taken_back(tmp_path: Path) -> None:
    """Positions injected one by one, too many and cropped, are those injected at once."""
    config, weights = load(save(tmp_path, XIAOMI, tensors(XIAOMI)))
    target, taps = borrowed(), features(PROMPT, 0)
    once, pieces = Context(), Context()
    inject(config, weights, once, taps)
    for position in range(PROMPT - 4):
        inject(config, weights, pieces, taps[position : position + 1])
    inject(config, weights, pieces, features(6, 5))
    pieces.crop(PROMPT - 4)
    inject(config, weights, pieces, taps[PROMPT - 4 :])
    assert pieces.length == once.length == PROMPT
    torch.testing.assert_close(
        draft_logits(config, weights, target, pieces, 3), draft_logits(config, weights, target, once, 3)
    )


def test_a_block_alone_has_itself_to_look_at(tmp_path: Path) -> None:
    config, weights = load(save(tmp_path, ZLAB, tensors(ZLAB)))
    assert draft_logits(config, weights, borrowed(), Context(), 3).isfinite().all()


def test_few_tokens_have_the_rows_of_all(tmp_path: Path) -> None:
    config, weights = load(save(tmp_path, ZLAB, tensors(ZLAB)))
    context, tokens = Context(), torch.tensor([0, 7, 8, 60])
    inject(config, weights, context, features(PROMPT, 0))
    few = draft_logits(config, weights, borrowed(tokens=tokens), context, 3)
    torch.testing.assert_close(few, draft_logits(config, weights, borrowed(), context, 3)[:, tokens])


def test_the_mask_has_its_row_in_the_table_unless_it_has_its_own(tmp_path: Path) -> None:
    config, weights = load(save(tmp_path, ZLAB, tensors(ZLAB)))
    plain = borrowed()
    same = Borrowed(plain.embedding, plain.head, mask=plain.embedding[MASK])
    other = Borrowed(plain.embedding, plain.head, mask=plain.embedding[MASK - 1])
    want = draft_logits(config, weights, plain, Context(), 3)
    assert torch.equal(draft_logits(config, weights, same, Context(), 3), want)
    assert not torch.allclose(draft_logits(config, weights, other, Context(), 3), want)
