"""Where the weights of a model are in a safetensors checkpoint, in the words of transformers."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModel
from ..weights.checkpoint import Checkpoint
from ..weights.gguf_cursor import shown
from ..weights.recipe import Recipe, fp8_kv, matrix, plain, stack
from . import gpt_oss, mimo_v2
from .config import Attention, Layer, Mixture, ModelConfig

_GLOBAL = {"embed.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight"}
_GLOBAL |= {"head.weight": "lm_head.weight"}

_NORMS = {"attn_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
_NORMS |= {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}

_OTHER_SENSES = ("visual.", "vision", "audio", "speech", "multi_modal_projector.")
"""How the names of what is not the language model begin."""


def recipes(config: ModelConfig, checkpoint: Checkpoint) -> dict[str, Recipe]:
    """For every weight of `ModelConfig.weights`, how it is read.

    Raises `ModelFileError` for a missing or misshapen tensor, `UnsupportedModel` for one stored in a way that
    is not supported.
    """
    found = {
        name: plain(checkpoint, _GLOBAL[name], shape)
        for name, shape in ((w.name, w.shape) for w in config.weights())
        if name in _GLOBAL
    }
    for index, layer in enumerate(config.layers):
        own = LayerRecipes(checkpoint, layer, f"model.layers.{index}.", config.hidden, config)
        found |= {f"layers.{index}.{name}": recipe for name, recipe in own.all().items()}
    return {weight.name: found[weight.name] for weight in config.weights()}


def unused(config: ModelConfig, checkpoint: Checkpoint, used: Mapping[str, Recipe]) -> tuple[str, ...]:
    """Notes on the tensors that no recipe reads.

    Raises `UnsupportedModel` for one that would change the results: a bias where the family has none.
    """
    rest = checkpoint.tensors.keys() - {name for recipe in used.values() for name in recipe.tensors}
    counts: dict[str, int] = {}
    for name in sorted(rest):
        why = _why_unused(name, config)
        if why is None:
            raise UnsupportedModel(
                f"{checkpoint.file(name)}: tensor {shown(name)} is no part of {config.family} models as they "
                "are supported, and leaving it out would change the results"
            )
        counts[why] = counts.get(why, 0) + 1
    return tuple(
        f"not used: {count} {'tensor' if count == 1 else 'tensors'}, {why}"
        for why, count in counts.items()
        if why
    )


def _why_unused(name: str, config: ModelConfig) -> str | None:
    """Empty where there is nothing to say, None where it matters."""
    if name.endswith("rotary_emb.inv_freq"):
        return ""  # computed from the config, better than files have it
    if name == "lm_head.weight" and config.tied:
        return "the head is the embedding table"
    words = name.removeprefix("model.")
    if words.startswith("mtp.") or _layer_number(words) >= len(config.layers):
        return "for predicting further tokens"
    if words.startswith(_OTHER_SENSES):
        return "for images and sound"
    return None


def _layer_number(words: str) -> int:
    parts = words.split(".")
    return int(parts[1]) if len(parts) > 2 and parts[0] == "layers" and parts[1].isdecimal() else -1


class LayerRecipes:
    """Of one layer, whose tensors' names begin with ``prefix``; ``model`` is what it is a layer of."""

    def __init__(
        self, checkpoint: Checkpoint, layer: Layer, prefix: str, hidden: int, model: ModelConfig | None = None
    ) -> None:
        self.checkpoint, self.layer, self.prefix, self.hidden = checkpoint, layer, prefix, hidden
        self.model = model
        self.is_gpt_oss = model is not None and model.family == gpt_oss.FAMILY

    def all(self) -> dict[str, Recipe]:
        """By the end of the canonical name: "q.weight"."""
        hidden, found = self.hidden, self.attention(self.layer.attention)
        found |= {f"{name}.weight": self.vector(_NORMS[name], hidden) for name in ("attn_norm", "mlp_norm")}
        mlp = self.layer.mlp
        if isinstance(mlp, Mixture):
            return found | self.router(mlp) | self.experts(mlp)
        for name in ("gate", "up"):
            found[f"{name}.weight"] = self.matrix(f"mlp.{name}_proj", mlp.wide, hidden)
        return found | {"down.weight": self.matrix("mlp.down_proj", hidden, mlp.wide)}

    def has(self, name: str) -> bool:
        return self.prefix + name in self.checkpoint.tensors

    def vector(self, name: str, size: int, kind: str = ".weight") -> Recipe:
        return plain(self.checkpoint, self.prefix + name + kind, (size,))

    def matrix(self, name: str, rows: int, columns: int) -> Recipe:
        return matrix(self.checkpoint, f"{self.prefix}{name}.weight", rows, columns)

    def attention(self, a: Attention) -> dict[str, Recipe]:
        hidden, own = self.hidden, "self_attn."
        rows = {"q": a.heads * a.head_dim, "k": a.kv_heads * a.head_dim, "v": a.kv_heads * a.value_dim}
        if self.model and self.has(own + "qkv_proj.weight"):
            found = mimo_v2.fused(self.model, self.checkpoint, a, self.prefix + own)
        else:
            found = {f"{n}.weight": self.matrix(f"{own}{n}_proj", rows[n], hidden) for n in "q"}
            found |= self.keys_and_values(a, rows)
        found["o.weight"] = self.matrix(own + "o_proj", hidden, a.heads * a.value_dim)
        if a.bias:
            found |= {f"{n}.bias": self.vector(f"{own}{n}_proj", rows[n], ".bias") for n in "qkv"}
        if a.out_bias:
            found["o.bias"] = self.vector(own + "o_proj", hidden, ".bias")
        if a.qk_norm:
            found |= {f"{n}.weight": self.vector(_NORMS[n], a.head_dim) for n in ("q_norm", "k_norm")}
        if a.sinks:
            files = own + "attention_sink_bias"  # transformers renames it in memory, and may in files
            found["sinks.weight"] = self.vector(files if self.has(files) else own + "sinks", a.heads, "")
        return found

    def keys_and_values(self, a: Attention, rows: Mapping[str, int]) -> dict[str, Recipe]:
        k, v = (f"{self.prefix}self_attn.{name}_proj.weight" for name in "kv")
        if self.checkpoint.entry(k).dtype == "F8_E4M3":
            dims = a.head_dim, a.value_dim
            pair = fp8_kv(self.checkpoint, (k, v), a.kv_heads, dims, self.hidden)
            return dict(zip(("k.weight", "v.weight"), pair, strict=True))
        return {f"{n}.weight": self.matrix(f"self_attn.{n}_proj", rows[n], self.hidden) for n in "kv"}

    def router(self, m: Mixture) -> dict[str, Recipe]:
        name = "mlp.router" if self.is_gpt_oss else "mlp.gate"
        shape = (m.experts, self.hidden)
        found = {"router.weight": plain(self.checkpoint, f"{self.prefix}{name}.weight", shape)}
        if m.router_bias:
            found["router.bias"] = self.vector(name, m.experts, ".bias")
        if m.correction:
            found["router.correction"] = self.vector(name, m.experts, ".e_score_correction_bias")
        return found

    def experts(self, m: Mixture) -> dict[str, Recipe]:
        """Each expert's matrices for themselves, or all in one as transformers 5 has them in memory."""
        hidden, own = self.hidden, f"{self.prefix}mlp.experts."
        if self.is_gpt_oss:
            return gpt_oss.experts(self.checkpoint, own, m, hidden)
        shapes = {"gate": (m.wide, hidden), "up": (m.wide, hidden), "down": (hidden, m.wide)}
        if own + "gate_up_proj" in self.checkpoint.tensors:
            both, halves = (m.experts, 2 * m.wide, hidden), (slice(0, m.wide), slice(m.wide, None))
            found = {
                f"experts.{name}.weight": plain(self.checkpoint, own + "gate_up_proj", both, rows=half)
                for name, half in zip(("gate", "up"), halves, strict=True)
            }
            down = plain(self.checkpoint, own + "down_proj", (m.experts, hidden, m.wide))
            return found | {"experts.down.weight": down}
        return {
            f"experts.{name}.weight": stack(
                self.checkpoint, [f"{own}{e}.{name}_proj.weight" for e in range(m.experts)], *shape
            )
            for name, shape in shapes.items()
        }
