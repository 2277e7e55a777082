"""MiMo-V2.5 and V2.6, plain and Pro: full and sliding layers of different KV heads and RoPE, values
narrower than keys and scaled, sinks where a layer slides, experts by sigmoid with a correction, a dense first
layer."""

from __future__ import annotations

from collections.abc import Sequence

from ultra_kernels.program import Scoring

from ..errors import ModelFileError
from ..weights.checkpoint import Checkpoint
from ..weights.recipe import Recipe, fused_qkv
from .basics import MAX_EXPERTS, MAX_HEADS, Basics, grouped
from .config import Attention, Dense, Layer, Mixture, ModelConfig
from .settings import FULL, SLIDING, Settings


def from_settings(settings: Settings) -> ModelConfig:
    return config(settings, "mimo_v2")


def config(
    settings: Settings, family: str, *, sliding_kv_heads: int = 1, partial: float | None = None
) -> ModelConfig:
    """``sliding_kv_heads``: how many times the KV heads of a full layer a sliding one has, unless the file
    says so itself. ``partial``: the part of a head that is rotated, likewise."""
    basics = settings.basics()
    if settings.integer("n_group", default=1) > 1:
        settings.refuse("n_group above 1; supported: experts in one group")
    kinds, sparse = _kinds(settings, basics.layers), _sparse(settings, basics.layers)
    attentions = {
        FULL: _full(settings, basics, partial),
        SLIDING: _sliding(settings, basics, sliding_kv_heads, partial) if SLIDING in kinds else None,
    }
    mixture = _mixture(settings) if any(sparse) else None
    dense = None if all(sparse) else Dense(settings.integer("intermediate_size"))
    layers = []
    for kind, is_sparse in zip(kinds, sparse, strict=True):
        attention, mlp = attentions[kind], mixture if is_sparse else dense
        assert attention and mlp
        layers.append(Layer(attention, mlp))
    return basics.config(family, layers)


def _kinds(settings: Settings, count: int) -> Sequence[str]:
    """``hybrid_layer_pattern`` (0 is full, 1 slides), or transformers' ``layer_types``."""
    pattern = settings.integers("hybrid_layer_pattern")
    if pattern is None:
        kinds = settings.kinds("layer_types", (FULL, SLIDING), count)
        if kinds is None:
            settings.fail("hybrid_layer_pattern", None, f"{count} of 0 and 1")
        return kinds
    if len(pattern) != count or not set(pattern) <= {0, 1}:
        settings.fail("hybrid_layer_pattern", pattern, f"{count} of 0 and 1")
    return [SLIDING if slides else FULL for slides in pattern]


def _sparse(settings: Settings, count: int) -> Sequence[bool]:
    """Which layers have experts: ``moe_layer_freq``, or transformers' ``mlp_layer_types``; all but the first
    where neither is given."""
    given = settings.integers("moe_layer_freq")
    if given is not None:
        if len(given) != count:
            settings.fail("moe_layer_freq", given, f"{count} of 0 and 1")
        return [bool(one) for one in given]
    words = settings.kinds("mlp_layer_types", ("dense", "sparse"), count)
    return [word == "sparse" for word in words] if words else [index > 0 for index in range(count)]


def _full(settings: Settings, basics: Basics, partial: float | None) -> Attention:
    return basics.attention(
        settings.rope(basics.head_dim, kind=FULL, partial=partial),
        value_scale=settings.number("attention_value_scale", default=1.0),
        sinks=settings.flag("add_full_attention_sink_bias"),
        bias=settings.flag("attention_bias"),
    )


def _sliding(settings: Settings, basics: Basics, kv_heads: int, partial: float | None) -> Attention:
    """The ``swa_*`` twins where the file has them."""
    head_dim = settings.integer("swa_head_dim", default=basics.head_dim, top=MAX_HEADS)
    heads = settings.integer("swa_num_attention_heads", default=basics.heads, top=MAX_HEADS)
    shared = settings.integer(
        "swa_num_key_value_heads", default=min(basics.kv_heads * kv_heads, MAX_HEADS), top=MAX_HEADS
    )
    grouped(basics.path, heads, shared)
    theta = settings.number("swa_rope_theta", default=10000.0)
    return Attention(
        heads=heads,
        kv_heads=shared,
        head_dim=head_dim,
        value_dim=settings.integer("swa_v_head_dim", default=basics.value_dim, top=MAX_HEADS),
        rope=settings.rope(head_dim, kind=SLIDING, own_theta=theta, partial=partial),
        value_scale=settings.number("attention_value_scale", default=1.0),
        window=settings.integer("sliding_window", "sliding_window_size", top=1 << 30),
        sinks=settings.flag("add_swa_attention_sink_bias", True),
        bias=settings.flag("attention_bias"),
    )


def _mixture(settings: Settings) -> Mixture:
    if settings.value("scoring_func") not in (None, "sigmoid"):
        settings.refuse(f"scoring_func {settings.value('scoring_func')!r}; supported: sigmoid")
    if settings.value("n_shared_experts"):
        settings.refuse("shared experts; supported: experts that a router chooses")
    experts = settings.integer("n_routed_experts", "num_local_experts", top=MAX_EXPERTS)
    return Mixture(
        experts,
        settings.integer("num_experts_per_tok", top=experts),
        settings.integer("moe_intermediate_size"),
        Scoring.SIGMOID,
        normalise=settings.flag("norm_topk_prob", True),
        factor=settings.number("routed_scaling_factor", default=1.0),
        correction=True,
    )


def fused(
    config: ModelConfig, checkpoint: Checkpoint, attention: Attention, prefix: str
) -> dict[str, Recipe]:
    """q, k and v of a layer out of ``qkv_proj``, which is a chunk after the other, each with its share of the
    three. There are as many chunks as ranks wrote the file: ``tp_size`` of the index, else the KV heads of a
    full layer."""
    full = next((layer.attention for layer in config.layers if not layer.attention.window), attention)
    given = checkpoint.index_metadata.get("tp_size", full.kv_heads)
    chunks = int(given) if str(given).isdecimal() else 0
    if not 0 < chunks <= MAX_HEADS or attention.heads % chunks or attention.kv_heads % chunks:
        kv = f"{attention.heads} heads and {attention.kv_heads} KV heads"
        raise ModelFileError(checkpoint.path, f"tp_size {given!r} does not divide {kv}")
    heads, kv_heads = attention.heads // chunks, attention.kv_heads // chunks
    sizes = (
        heads * attention.head_dim,
        kv_heads * attention.head_dim,
        kv_heads * attention.value_dim,
    )
    parts = fused_qkv(checkpoint, prefix + "qkv_proj.weight", chunks, sizes, config.hidden)
    return dict(zip(("q.weight", "k.weight", "v.weight"), parts, strict=True))
