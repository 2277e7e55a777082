"""`ultra models show`: what a model is and what it costs, as rows for people and as JSON."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from ..errors import ModelFileError, UnsupportedModel
from ..models.config import Attention, Mixture, ModelConfig
from ..plan.description import Description, describe, opened
from ..weights.checkpoint import Checkpoint
from ..weights.gguf import GGUFFile
from ..weights.summary import bytes_text, count_text, summary_table
from .shelf import size_of


class Shown:
    """One model. ``description`` is None, and ``reason`` says why, for one that the engine does not run."""

    def __init__(self, path: Path, licence: str | None) -> None:
        """Raises `ModelFileError` for a file whose header is broken."""
        self.path, self.licence = path, licence
        self.description: Description | None = None
        self.reason = ""
        with opened(path) as source:
            self.summary = summary_table(source, licence) if isinstance(source, GGUFFile) else None
            self.values = source.config if isinstance(source, Checkpoint) else source.metadata
            try:
                self.description = describe(source)
            except (UnsupportedModel, ModelFileError) as error:
                self.reason = str(error)

    def json(self) -> dict[str, Any]:
        """Numbers in bytes; without those of the model where the engine does not run it."""
        found: dict[str, Any] = {"path": str(self.path), "bytes": size_of(self.path), "licence": self.licence}
        found["runs"] = self.description is not None
        if self.description is None:
            return found | {"reason": self.reason}
        config, stored = self.description.config, self.description.stored
        attention = config.layers[0].attention
        mixture = _mixture(config)
        return found | {
            "family": config.family,
            "name": config.name,
            "layers": len(config.layers),
            "hidden": config.hidden,
            "heads": attention.heads,
            "kv_heads": attention.kv_heads,
            "head_dim": attention.head_dim,
            "experts": mixture.experts if mixture else 0,
            "experts_per_token": mixture.top_k if mixture else 0,
            "vocabulary": config.vocab,
            "context": config.context,
            "parameters": config.parameters,
            "active_parameters": config.active_parameters,
            "formats": {role.value: dict(formats) for role, formats in stored.items()},
            "read_bytes_per_token": round(self.description.read),
            "kv_bytes_per_token": config.kv_bytes_per_token,
            "notes": list(config.notes),
        }

    def table(self) -> Table:
        """What to print; text from files is shown as plain text."""
        table = self.summary
        if table is None:
            table = Table(show_header=False, box=None, pad_edge=False)
            table.add_column(style="bold")
            table.add_column(overflow="fold")
        for label, value in self._rows():
            table.add_row(label, Text(_printable(value)))
        return table

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("runs here", "yes" if self.description else f"no: {self.reason}")]
        if self.summary is None:
            rows.insert(0, ("size", f"{bytes_text(size_of(self.path))}"))
            rows.insert(1, ("licence", self.licence or "not given"))
        if self.description is None:
            kind = self.values.get("model_type") or self.values.get("general.architecture")
            return [*rows, ("architecture", str(kind))]
        return rows + _model_rows(self.description, self.summary is None)


def _model_rows(found: Description, from_folder: bool) -> list[tuple[str, str]]:
    config = found.config
    parameters = count_text(config.parameters)
    if config.active_parameters != config.parameters:
        parameters += f", {count_text(config.active_parameters)} of them active"
    rows = []
    if from_folder:
        rows = [
            ("architecture", config.family),
            ("layers", str(len(config.layers))),
            ("width", str(config.hidden)),
            ("context", str(config.context)),
            ("vocabulary", str(config.vocab)),
        ]
    rows += [("parameters", parameters)] if from_folder or "," in parameters[:-2] else []
    rows.append(("attention", _attention(config)))
    if mixture := _mixture(config):
        rows.append(("experts", f"{mixture.experts} of {mixture.wide} columns, {mixture.top_k} for a token"))
    for role, formats in found.stored.items():
        parts = ", ".join(f"{name} {bytes_text(size)}" for name, size in formats.most_common())
        rows.append((f"{role.value}, stored", parts))
    rows.append(("reads per token", f"{bytes_text(found.read)}, and KV"))
    rows.append(("KV per token", bytes_text(config.kv_bytes_per_token)))
    return rows + [("note", note) for note in config.notes]


def _attention(config: ModelConfig) -> str:
    """Kinds of attention, and how many layers have each."""
    kinds = Counter(_kind(layer.attention) for layer in config.layers)
    if len(kinds) == 1:
        return next(iter(kinds))
    return "; ".join(f"{count} layers {kind}" for kind, count in kinds.items())


def _kind(a: Attention) -> str:
    dims = str(a.head_dim) if a.head_dim == a.value_dim else f"{a.head_dim}/{a.value_dim}"
    window = f", window {a.window}" if a.window else ""
    return f"{a.heads} heads of {dims}, {a.kv_heads} for K and V{window}"


def _mixture(config: ModelConfig) -> Mixture | None:
    return next((layer.mlp for layer in config.layers if isinstance(layer.mlp, Mixture)), None)


def _printable(text: str) -> str:
    """Without control characters, so that a file cannot write escape sequences to the terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)[:500]
