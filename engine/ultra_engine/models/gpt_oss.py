"""gpt-oss: sinks on every layer, every other one slides; experts with biases and a clamped SwiGLU, YaRN."""

from __future__ import annotations

from collections.abc import Sequence

from ultra_kernels.program import Scoring

from ..weights.checkpoint import Checkpoint
from ..weights.recipe import Recipe, mxfp4_blocks, plain
from .basics import MAX_EXPERTS, Basics
from .config import Layer, Mixture, ModelConfig, Rope
from .metadata import Metadata
from .settings import FULL, SLIDING, Settings

FAMILY = "gpt_oss"
LIMIT, ALPHA = 7.0, 1.702
YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
"""What a config that does not speak of RoPE means, by transformers' class."""


def from_gguf(meta: Metadata) -> ModelConfig:
    """GGUF does not say that gpt-oss's YaRN does not round where its ramp begins and ends."""
    basics = meta.basics()
    experts, top_k, wide = meta.experts()
    rope = meta.rope(basics.head_dim, truncate=False)
    window = meta.integer("attention.sliding_window", top=1 << 30)
    return _config(basics, rope, _mixture(experts, top_k, wide), _alternating(basics.layers), window)


def from_settings(settings: Settings) -> ModelConfig:
    if settings.value("rope_parameters", "rope_scaling") is None:
        settings = settings.beside(rope_parameters=YARN)
    basics = settings.basics()
    experts = settings.integer("num_local_experts", "num_experts", top=MAX_EXPERTS)
    mixture = _mixture(
        experts,
        settings.integer("num_experts_per_tok", "experts_per_token", top=experts),
        settings.integer("intermediate_size"),
        limit=settings.number("swiglu_limit", default=LIMIT),
        alpha=settings.number("swiglu_alpha", default=ALPHA),
    )
    kinds = settings.kinds("layer_types", (FULL, SLIDING), basics.layers) or _alternating(basics.layers)
    window = settings.integer("sliding_window", top=1 << 30) if SLIDING in kinds else 0
    rope = settings.rope(basics.head_dim, theta=150000.0)
    return _config(basics, rope, mixture, kinds, window, settings.flag("attention_bias", True))


def _alternating(layers: int) -> list[str]:
    return [FULL if layer % 2 else SLIDING for layer in range(layers)]


def _mixture(experts: int, top_k: int, wide: int, limit: float = LIMIT, alpha: float = ALPHA) -> Mixture:
    return Mixture(
        experts,
        top_k,
        wide,
        Scoring.CHOSEN,
        limit=limit,
        alpha=alpha,
        router_bias=True,
        biases=True,
    )


def _config(
    basics: Basics, rope: Rope, mixture: Mixture, kinds: Sequence[str], window: int, bias: bool = True
) -> ModelConfig:
    layers = {
        kind: Layer(
            basics.attention(
                rope, window=window if kind == SLIDING else 0, sinks=True, bias=bias, out_bias=bias
            ),
            mixture,
        )
        for kind in (FULL, SLIDING)
    }
    return basics.config(FAMILY, [layers[kind] for kind in kinds])


def experts(checkpoint: Checkpoint, prefix: str, m: Mixture, hidden: int) -> dict[str, Recipe]:
    """The experts' weights: MXFP4 as published, [experts, out, in], or floats as transformers has them,
    [experts, in, out]. Rows of gate and up take turns."""
    turns = {"gate": slice(0, None, 2), "up": slice(1, None, 2)}
    both, down = prefix + "gate_up_proj", prefix + "down_proj"
    found: dict[str, Recipe] = {}
    if both + "_blocks" in checkpoint.tensors:
        shape = (m.experts, 2 * m.wide, hidden)
        for name, rows in turns.items():
            found[f"experts.{name}.weight"] = mxfp4_blocks(checkpoint, both, shape, rows=rows)
        found["experts.down.weight"] = mxfp4_blocks(checkpoint, down, (m.experts, hidden, m.wide))
    else:
        shape = (m.experts, hidden, 2 * m.wide)
        for name, rows in turns.items():
            found[f"experts.{name}.weight"] = plain(checkpoint, both, shape, rows=rows, transposed=True)
        stored = (m.experts, m.wide, hidden)
        found["experts.down.weight"] = plain(checkpoint, down, stored, transposed=True)
    for name, rows in turns.items():
        shape2 = (m.experts, 2 * m.wide)
        found[f"experts.{name}.bias"] = plain(checkpoint, both + "_bias", shape2, columns=rows)
    return found | {"experts.down.bias": plain(checkpoint, down + "_bias", (m.experts, hidden))}
