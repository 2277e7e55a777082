"""The weights that a Program asks for: of a GGUF file as views, of a checkpoint as what will read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ultra_kernels.formats import FORMATS, Format
from ultra_kernels.program import Program
from ultra_kernels.step import Packed

from ..errors import ModelFileError, UnsupportedModel
from ..models.gguf_names import gguf_name
from .borrow import borrow
from .checkpoint import Checkpoint
from .gguf import GGUFFile
from .recipe import Recipe


def load_weights(file: GGUFFile, program: Program) -> dict[str, Packed]:
    """Every weight of ``program`` from ``file``, shapes checked.

    Raises `ModelFileError` for a missing or misshapen tensor, `UnsupportedModel` for an unknown format.
    """
    architecture = file.field("general.architecture", str, "llama")
    return {
        buffer.name: _tensor(
            file, gguf_name(buffer.name, architecture), tuple(int(size) for size in buffer.shape)
        )
        for buffer in program.weights()
    }


def _tensor(file: GGUFFile, name: str, shape: tuple[int, ...]) -> Packed:
    info = file.tensors.get(name)
    if info is None:
        raise ModelFileError(file.path, f"there is no tensor {name}")
    if tuple(info.shape) != shape:
        raise ModelFileError(file.path, f"tensor {name} is {tuple(info.shape)}, the metadata says {shape}")
    format = FORMATS.get(info.type.name.lower())
    if format is None:
        raise UnsupportedModel(
            f"{file.path}: tensor {name} is {info.type.name}; supported: {', '.join(sorted(FORMATS))}"
        )
    rows = math.prod(shape[:-1])
    return Packed(format, borrow(file.data(name)).reshape(rows, format.row_bytes(shape[-1])))


@dataclass(frozen=True, slots=True)
class Unread:
    """A weight of a checkpoint, which `load` reads: a `ultra_kernels.step.Weight`."""

    recipe: Recipe
    checkpoint: Checkpoint

    @property
    def format(self) -> Format:
        return self.recipe.format

    @property
    def shape(self) -> tuple[int, int]:
        return self.recipe.rows, self.recipe.columns

    def load(self) -> Packed:
        return self.recipe.read(self.checkpoint)


def checkpoint_weights(
    checkpoint: Checkpoint, recipes: Mapping[str, Recipe], program: Program
) -> dict[str, Unread]:
    """Every weight of ``program`` by its ``recipes``; none is read yet."""
    found = {buffer.name: Unread(recipes[buffer.name], checkpoint) for buffer in program.weights()}
    for buffer in program.weights():
        assert found[buffer.name].shape == buffer.matrix, f"{buffer.name}: {recipes[buffer.name]}"
    return found
