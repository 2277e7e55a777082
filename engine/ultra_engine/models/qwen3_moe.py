"""Qwen3-MoE: Qwen3's attention; experts by softmax over all of them, here and there a dense layer."""

from __future__ import annotations

from ultra_kernels.program import Scoring

from .basics import MAX_EXPERTS
from .config import Dense, Layer, Mixture, ModelConfig
from .metadata import Metadata
from .settings import Settings


def from_gguf(meta: Metadata) -> ModelConfig:
    """GGUF does not say whether gates are normalised: those of all published models are."""
    basics = meta.basics()
    experts, top_k, wide = meta.experts()
    attention = basics.attention(meta.rope(basics.head_dim), qk_norm=True)
    layer = Layer(attention, Mixture(experts, top_k, wide, Scoring.SOFTMAX, normalise=True))
    return basics.config("qwen3_moe", [layer] * basics.layers)


def from_settings(settings: Settings) -> ModelConfig:
    basics, bias = settings.basics(), settings.flag("attention_bias")
    experts = settings.integer("num_experts", "num_local_experts", top=MAX_EXPERTS)
    mixture = Mixture(
        experts,
        settings.integer("num_experts_per_tok", top=experts),
        settings.integer("moe_intermediate_size"),
        Scoring.SOFTMAX,
        normalise=settings.flag("norm_topk_prob"),
    )
    # Where Qwen3-MoE slides, it slides in every layer.
    sliding = settings.flag("use_sliding_window") and settings.value("sliding_window") is not None
    attention = basics.attention(
        settings.rope(basics.head_dim),
        window=settings.integer("sliding_window", top=1 << 30) if sliding else 0,
        bias=bias,
        out_bias=bias,
        qk_norm=True,
    )
    step = settings.integer("decoder_sparse_step", default=1)
    plain = set(settings.integers("mlp_only_layers") or ())
    sparse = [(index + 1) % step == 0 and index not in plain for index in range(basics.layers)]
    dense = mixture if all(sparse) else Dense(settings.integer("intermediate_size"))
    return basics.config("qwen3_moe", [Layer(attention, mixture if one else dense) for one in sparse])
