"""What a model on disk is: sizes from its config, bytes from its files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import ModelFileError
from ..models import gguf_name, read_config, recipes
from ..models.config import Mixture, ModelConfig, Role, Weight
from ..weights.checkpoint import Checkpoint
from ..weights.gguf import GGUFFile

Sizes = dict[Role, Counter[str]]
"""Bytes of each format, role by role."""


@dataclass(frozen=True, slots=True)
class Description:
    """``stored``: what the files have of each role; ``read``: bytes that one token at least has to read."""

    config: ModelConfig
    stored: Sizes
    read: float

    @property
    def bytes(self) -> int:
        """Of all weights that are run."""
        return sum(sum(formats.values()) for formats in self.stored.values())


@contextmanager
def opened(path: Path) -> Iterator[GGUFFile | Checkpoint]:
    """A file or a folder, closed afterwards. Raises `ModelFileError`."""
    source = Checkpoint.open(path) if path.is_dir() else GGUFFile.open(path)
    with source:
        yield source


def describe(source: GGUFFile | Checkpoint) -> Description:
    """Raises `UnsupportedModel` for what the engine does not run, `ModelFileError` for what is broken."""
    config = read_config(source)
    stored: Sizes = {}
    read = 0.0
    for weight, format, size in _sizes(config, source):
        stored.setdefault(weight.role, Counter())[format] += size
        read += size * _part(config, weight)
    return Description(config, stored, read)


def _sizes(config: ModelConfig, source: GGUFFile | Checkpoint) -> Iterator[tuple[Weight, str, int]]:
    """Of every weight: its format and its bytes in the file."""
    if isinstance(source, Checkpoint):
        found = recipes(config, source)
        for weight in config.weights():
            recipe = found[weight.name]
            yield weight, recipe.format.name, recipe.rows * recipe.format.row_bytes(recipe.columns)
        return
    architecture = str(source.metadata["general.architecture"])
    for weight in config.weights():
        name = gguf_name(weight.name, architecture)
        if name not in source.tensors:
            raise ModelFileError(source.path, f"there is no tensor {name}")
        info = source.tensors[name]
        yield weight, info.type.name.lower(), info.nbytes


def _part(config: ModelConfig, weight: Weight) -> float:
    """How much of a weight one token reads: the chosen experts, and one row of an embedding, which is next to
    nothing unless it is the head as well."""
    if weight.role is Role.EMBEDDING:
        return 1.0 if config.tied else 0.0
    if weight.role is not Role.EXPERTS:
        return 1.0
    mixture = config.layers[int(weight.name.split(".")[1])].mlp
    assert isinstance(mixture, Mixture)
    return mixture.top_k / mixture.experts
