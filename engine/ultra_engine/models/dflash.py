"""The DFlash drafter (arXiv 2602.06036): a few Qwen3-like layers that read the target's hidden states and
fill a block of masked tokens at once. Its config, in z-lab's layout and in Xiaomi's, and its weights.

The token embedding and the head are the target's. A tap is the residual stream after one of the target's
layers, before any norm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import UnsupportedModel
from ..weights.checkpoint import Checkpoint
from ..weights.gguf_cursor import shown
from ..weights.recipe import Recipe, matrix, plain
from .basics import MAX_LAYERS
from .config import Dense, Layer, Role, Weight, layer_weights
from .recipes import LayerRecipes
from .settings import FULL, SLIDING, Settings

BLOCK = 16
"""Tokens of a block where a config does not say: z-lab's default."""

MAX_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """``layers`` are all dense; ``causal`` says of each whether a token of a block sees only those before it
    in the block. Every token sees all context, or as much as its layer's window."""

    name: str
    layers: tuple[Layer, ...]
    causal: tuple[bool, ...]
    hidden: int
    target_hidden: int
    target_layers: int
    taps: tuple[int, ...]
    """Layers of the target whose outputs are read, in this order."""
    block: int
    """Tokens of a block, the anchor included: it drafts one less."""
    mask_token: int
    vocab: int
    eps: float
    embedding_scale: float = 1.0
    """What the embeddings of a block are multiplied with."""
    logit_scale: float = 1.0
    softcap: float = 0.0
    """Logits are softcap * tanh(logits / softcap), after ``logit_scale``; 0 leaves them."""

    @property
    def parameters(self) -> int:
        return sum(weight.size for weight in self.weights())

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of K and V of one position of context in bfloat16."""
        return sum(layer.attention.kv_bytes for layer in self.layers)

    def weights(self) -> Iterator[Weight]:
        """Every weight by its canonical name. ``fc`` makes a state of the taps, ``hidden_norm`` scales it."""
        taps = len(self.taps) * self.target_hidden
        yield Weight("fc.weight", (self.hidden, taps), Role.MLP)
        yield Weight("hidden_norm.weight", (self.hidden,), Role.NORM)
        for index, layer in enumerate(self.layers):
            yield from layer_weights(layer, f"layers.{index}.", self.hidden)
        yield Weight("norm.weight", (self.hidden,), Role.NORM)


def tap_layers(target_layers: int, layers: int) -> tuple[int, ...]:
    """The taps of a drafter of so many layers that does not name them: evenly from the second layer to the
    third from the end, halves to the even number; the middle one for a drafter of one layer."""
    if layers == 1:
        return (target_layers // 2,)
    return tuple(round(1 + i * (target_layers - 4) / (layers - 1)) for i in range(layers))


def read_drafter(checkpoint: Checkpoint, *, theta: float | None = None) -> DrafterConfig:
    """The config of the drafter in ``checkpoint``. ``theta`` instead of the file's ``rope_theta``: engines do
    not agree on Xiaomi's (the file's 1e4, or ``backbone_rotary_base``).

    Raises `ModelFileError`, or `UnsupportedModel` for what is no DFlash drafter of the first kind.
    """
    settings = Settings(checkpoint.path / "config.json", checkpoint.config)
    if theta is not None:
        inner = checkpoint.config.get("rope_parameters")
        inner = {**inner, "rope_theta": theta} if isinstance(inner, dict) else inner
        settings = settings.beside(rope_theta=theta, rope_parameters=inner)
    return drafter_config(settings)


def drafter_config(settings: Settings) -> DrafterConfig:
    """What a config.json alone gives. Raises as `read_drafter` does."""
    own = settings.part("dflash_config").over(settings)
    _check_kind(settings, own)
    basics = settings.basics()
    target_layers = own.integer("num_target_layers", top=MAX_LAYERS)
    vocab = basics.vocab
    mask = own.value("mask_token_id")
    if type(mask) is not int or not 0 <= mask < vocab:
        settings.fail("dflash_config.mask_token_id", mask, f"a token of {vocab}")
    kinds = settings.kinds("layer_types", (FULL, SLIDING), basics.layers)
    return DrafterConfig(
        name=basics.name,
        layers=_layers(settings, own, kinds),
        causal=_causal(settings, own, kinds, basics.layers),
        hidden=basics.hidden,
        target_hidden=own.integer("target_hidden_size", default=basics.hidden),
        target_layers=target_layers,
        taps=_taps(own, target_layers, basics.layers),
        block=_block(own),
        mask_token=mask,
        vocab=vocab,
        eps=basics.eps,
        embedding_scale=own.number("input_embedding_scale", default=1.0),
        logit_scale=own.number("output_multiplier", default=1.0),
        softcap=own.number("final_logit_softcapping") if own.value("final_logit_softcapping") else 0.0,
    )


def _check_kind(settings: Settings, own: Settings) -> None:
    kind = settings.value("architectures")
    if kind != ["DFlashDraftModel"] and (kind is not None or settings.value("dflash_config") is None):
        settings.refuse(f"architectures {str(kind)[:60]}: no DFlash drafter; supported: DFlashDraftModel")
    for key in ("conv_kernel_size", "selector_rank", "conv_group_size"):
        if own.value(key) is not None:
            settings.refuse(f"{key}: a DFlash 2 drafter; supported: those of the first kind")


def _block(own: Settings) -> int:
    block = own.integer("block_size", default=BLOCK, top=MAX_BLOCK)
    if block < 2:
        own.fail("block_size", block, f"2 to {MAX_BLOCK}: an anchor and what is drafted after it")
    return block


def _taps(own: Settings, target_layers: int, layers: int) -> tuple[int, ...]:
    taps = own.integers("target_layer_ids")
    if taps is None:
        taps = tap_layers(target_layers, layers)
    if not 0 < len(taps) <= MAX_LAYERS or not all(0 <= tap < target_layers for tap in taps):
        own.fail("target_layer_ids", list(taps), f"layers of the target, 0 to {target_layers - 1}")
    return tuple(taps)


def _layers(settings: Settings, own: Settings, kinds: Sequence[str] | None) -> tuple[Layer, ...]:
    """``use_swa`` makes every layer slide where ``layer_types`` does not speak."""
    basics, window = settings.basics(), 0
    if kinds is None and own.flag("use_swa"):
        window = own.integer("swa_window_size", "sliding_window", top=1 << 30)
    elif kinds and SLIDING in kinds:
        window = settings.integer("sliding_window", top=1 << 30)
    bias = settings.flag("attention_bias")
    mlp = Dense(settings.integer("intermediate_size"))
    rope = settings.rope(basics.head_dim)
    found = {
        kind: Layer(
            basics.attention(
                rope,
                window=window if kind == SLIDING else 0,
                value_scale=own.number("attention_value_scale", default=1.0),
                sinks=own.flag("attention_sink_bias"),
                bias=bias,
                out_bias=bias,
                qk_norm=True,
            ),
            mlp,
        )
        for kind in (FULL, SLIDING)
    }
    return tuple(found[kind] for kind in kinds or [SLIDING if window else FULL] * basics.layers)


def _causal(settings: Settings, own: Settings, kinds: Sequence[str] | None, layers: int) -> tuple[bool, ...]:
    """``is_causal``, else ``dflash_config.causal``, else what slides is causal; nothing is without
    ``layer_types``."""
    for source, key in ((settings, "is_causal"), (own, "causal")):
        if source.value(key) is not None:
            return (source.flag(key),) * layers
    return tuple(kind == SLIDING for kind in kinds) if kinds else (False,) * layers


def drafter_recipes(config: DrafterConfig, checkpoint: Checkpoint) -> dict[str, Recipe]:
    """For every weight of `DrafterConfig.weights`, how it is read; names may have ``model.`` before them.

    Raises `ModelFileError` for a missing or misshapen tensor, `UnsupportedModel` for one too many: a head or
    an embedding of its own, a part of another kind of drafter.
    """
    prefix = "" if "fc.weight" in checkpoint.tensors else "model."
    shapes = {weight.name: weight.shape for weight in config.weights()}
    found = {
        "fc.weight": matrix(checkpoint, f"{prefix}fc.weight", *shapes["fc.weight"]),
        "hidden_norm.weight": plain(checkpoint, f"{prefix}hidden_norm.weight", (config.hidden,)),
        "norm.weight": plain(checkpoint, f"{prefix}norm.weight", (config.hidden,)),
    }
    for index, layer in enumerate(config.layers):
        own = LayerRecipes(checkpoint, layer, f"{prefix}layers.{index}.", config.hidden)
        found |= {f"layers.{index}.{name}": recipe for name, recipe in own.all().items()}
    read = {name for recipe in found.values() for name in recipe.tensors}
    for name in sorted(checkpoint.tensors.keys() - read):
        if not name.endswith("rotary_emb.inv_freq"):
            raise UnsupportedModel(
                f"{checkpoint.file(name)}: tensor {shown(name)} is no part of DFlash drafters as supported"
            )
    return {name: found[name] for name in shapes}
