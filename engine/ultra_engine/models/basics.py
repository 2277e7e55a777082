"""What every decoder's file says, whichever kind of file it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..errors import ModelFileError
from .config import Attention, Layer, ModelConfig, Rope

MAX_LAYERS, MAX_WIDTH, MAX_HEADS, MAX_EXPERTS, MAX_CONTEXT = 512, 1 << 20, 4096, 4096, 1 << 30


@dataclass(frozen=True, slots=True)
class Basics:
    """Sizes as a file has them, in elements; heads are checked to group."""

    path: str
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    vocab: int
    context: int
    eps: float
    tied: bool

    def __post_init__(self) -> None:
        grouped(self.path, self.heads, self.kv_heads)

    def attention(self, rope: Rope, **options: Any) -> Attention:
        """Of a layer; ``options`` are fields of `Attention` that differ from the plain."""
        sizes = {name: getattr(self, name) for name in ("heads", "kv_heads", "head_dim", "value_dim")}
        return Attention(**(sizes | {"rope": rope} | options))

    def config(self, family: str, layers: Iterable[Layer]) -> ModelConfig:
        return ModelConfig(
            family=family,
            name=self.name,
            layers=tuple(layers),
            hidden=self.hidden,
            vocab=self.vocab,
            context=self.context,
            eps=self.eps,
            tied=self.tied,
        )


def grouped(path: str, heads: int, kv_heads: int) -> None:
    """Raise `ModelFileError` unless as many heads fall to every KV head."""
    if heads % kv_heads:
        raise ModelFileError(path, f"{heads} heads do not share {kv_heads} KV heads evenly")
