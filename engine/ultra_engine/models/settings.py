"""config.json of a decoder, every number checked before anything is built from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from ..errors import ModelFileError, UnsupportedModel
from .basics import MAX_CONTEXT, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, Basics
from .config import Rope
from .rope import KINDS, Scaling, rope

FULL, SLIDING = "full_attention", "sliding_attention"


class Settings:
    """Typed access to the keys of a config.json. A key may have several spellings, the first that is there
    counts; null is absent. A missing or absurd value is a `ModelFileError`."""

    def __init__(self, path: str | Path, values: Mapping[str, Any]) -> None:
        self.path, self._values = str(path), values

    def value(self, *keys: str) -> Any:
        return next((self._values[key] for key in keys if self._values.get(key) is not None), None)

    def beside(self, **values: Any) -> Settings:
        """These settings and ``values``."""
        return Settings(self.path, {**self._values, **values})

    def integer(self, *keys: str, default: int | None = None, top: int = MAX_WIDTH) -> int:
        value = self.value(*keys)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= top:
            self.fail(keys[0], value, f"1 to {top}")
        return value

    def number(self, *keys: str, default: float | None = None) -> float:
        value = self.value(*keys)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
            self.fail(keys[0], value, "a positive number")
        return float(value)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.value(key)
        if value is not None and not isinstance(value, bool):
            self.fail(key, value, "true or false")
        return default if value is None else bool(value)

    def integers(self, key: str) -> Sequence[int] | None:
        value: Sequence[int] | None = self._list(key, int)
        return value

    def kinds(self, key: str, known: Sequence[str], count: int) -> Sequence[str] | None:
        """A word of ``known`` for each of ``count`` layers."""
        words: Sequence[str] | None = self._list(key, str)
        if words is not None and (len(words) != count or not set(words) <= set(known)):
            self.fail(key, words, f"{count} of {', '.join(known)}")
        return words

    def _list(self, key: str, kind: type) -> Any:
        value = self.value(key)
        if value is not None and not (isinstance(value, list) and all(type(item) is kind for item in value)):
            self.fail(key, value, f"a list of {kind.__name__}")
        return value

    def over(self, other: Settings) -> Settings:
        """These settings where they speak, ``other`` where they do not."""
        spoken = {key: value for key, value in self._values.items() if value is not None}
        return Settings(self.path, {**other._values, **spoken})

    def part(self, key: str) -> Settings:
        """The settings inside one: none where it is absent."""
        value = self.value(key)
        if value is not None and not isinstance(value, dict):
            self.fail(key, value, "an object")
        return Settings(self.path, value or {})

    def fail(self, key: str, value: object, wanted: str) -> NoReturn:
        raise ModelFileError(self.path, f"{key} is {_short(value)}, not {wanted}")

    def refuse(self, what: str) -> NoReturn:
        raise UnsupportedModel(f"{self.path}: {what[:200]}")

    def basics(self) -> Basics:
        """The sizes that all families spell alike. Raises `UnsupportedModel` for an activation but SiLU."""
        hidden, heads = self.integer("hidden_size"), self.integer("num_attention_heads", top=MAX_HEADS)
        activation = self.value("hidden_act")
        if activation not in (None, "silu"):
            self.refuse(f"hidden_act {activation!r}; supported: silu")
        head_dim = self.integer("head_dim", default=hidden // heads, top=MAX_HEADS)
        return Basics(
            path=self.path,
            name=Path(self.path).parent.name,
            layers=self.integer("num_hidden_layers", top=MAX_LAYERS),
            hidden=hidden,
            heads=heads,
            kv_heads=self.integer("num_key_value_heads", default=heads, top=MAX_HEADS),
            head_dim=head_dim,
            value_dim=self.integer("v_head_dim", default=head_dim, top=MAX_HEADS),
            vocab=self.integer("vocab_size", top=1 << 24),
            context=self.integer("max_position_embeddings", default=2048, top=MAX_CONTEXT),
            eps=self.number("rms_norm_eps", "layernorm_epsilon", default=1e-6),
            tied=self.flag("tie_word_embeddings"),
        )

    def layer_kinds(self, count: int) -> Sequence[str]:
        """Of each layer, `FULL` or `SLIDING`, as Qwen writes it: ``layer_types``, else all full up to
        ``max_window_layers`` where ``use_sliding_window`` is set."""
        if not self.flag("use_sliding_window"):
            return [FULL] * count
        full = self.value("max_window_layers")
        full = 28 if full is None else full
        if type(full) is not int or full < 0:
            self.fail("max_window_layers", full, "a number of layers")
        kinds = self.kinds("layer_types", (FULL, SLIDING), count)
        return kinds or [FULL if layer < full else SLIDING for layer in range(count)]

    def rope(
        self,
        head_dim: int,
        *,
        kind: str = "",
        theta: float = 10000.0,
        own_theta: float | None = None,
        partial: float | None = None,
    ) -> Rope:
        """The frequencies of a layer of ``kind``. ``rope_parameters`` (transformers 5, with an object for
        each kind of layer where they differ) or ``rope_scaling``; what they leave out stands beside them, and
        what the file leaves out is ``theta`` and ``partial``. ``own_theta`` stands beside for this kind."""
        key = "rope_parameters" if self.value("rope_parameters") else "rope_scaling"
        inner = self.part(key)
        if kind and isinstance(inner.value(kind), dict):
            inner = inner.part(kind)
        beside = own_theta or self.number("rope_theta", default=theta)
        theta = inner.number("rope_theta", default=beside)
        beside = self.number("partial_rotary_factor", default=partial or 1.0)
        partial = inner.number("partial_rotary_factor", default=beside)
        dims = int(head_dim * partial)
        if not 0 < dims <= head_dim or dims % 2:
            self.fail("partial_rotary_factor", partial, f"one that rotates an even part of {head_dim}")
        if theta <= 1:
            self.fail("rope_theta", theta, "above 1")
        scaling = self._scaling(inner)
        if scaling.kind == "yarn" and dims != head_dim:
            self.refuse("YaRN on a part of the head; supported: on all of it")
        return rope(dims, theta, scaling)

    def _scaling(self, inner: Settings) -> Scaling:
        kind = inner.value("rope_type", "type") or "default"
        if not isinstance(kind, str) or kind not in KINDS:
            self.refuse(f"RoPE scaling {_short(kind)}; supported: {', '.join(KINDS)}")
        if kind == "default":
            return Scaling()
        factor = inner.number("factor")
        if kind == "linear":
            return Scaling(kind, factor)
        trained = "original_max_position_embeddings"
        original = self.value(trained) or inner.value(trained) or self.value("max_position_embeddings")
        if type(original) is not int or not 0 < original <= MAX_CONTEXT:
            self.fail(trained, original, "a number of positions")
        scaling = Scaling(kind, factor, original)
        if kind == "llama3":
            low, high = inner.number("low_freq_factor"), inner.number("high_freq_factor")
            return replace(scaling, low=low, high=high)
        given = inner.value("attention_factor")
        return replace(
            scaling,
            beta_fast=inner.number("beta_fast", default=scaling.beta_fast),
            beta_slow=inner.number("beta_slow", default=scaling.beta_slow),
            attention=None if given is None else inner.number("attention_factor"),
            mscale=inner.number("mscale", default=0.0) if inner.value("mscale") else 0.0,
            mscale_all_dim=inner.number("mscale_all_dim") if inner.value("mscale_all_dim") else 0.0,
            truncate=inner.flag("truncate", True),
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
