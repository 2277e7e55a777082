"""Which safetensors files of a folder are a model's: one, or those that an index lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelFileError
from .gguf_cursor import shown
from .json_file import read_object

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class Index:
    """weight_map: tensor -> the file it is in, a name beside the index. metadata: whatever else it says."""

    weight_map: Mapping[str, str]
    metadata: dict[str, Any]

    @property
    def files(self) -> list[str]:
        return sorted(set(self.weight_map.values()))


def read_index(path: Path) -> Index:
    """Raises `ModelFileError`; files that are not plain names of safetensors files are a fault."""
    values = read_object(path)
    found, metadata = values.get("weight_map"), values.get("metadata", {})
    if not isinstance(found, dict) or not found:
        raise ModelFileError(path, "weight_map is not an object of tensors and files")
    if not isinstance(metadata, dict):
        raise ModelFileError(path, "metadata is not an object")
    for name, file in found.items():
        if not isinstance(file, str) or not file.endswith(".safetensors") or set(file) & set("/\\:\0"):
            raise ModelFileError(
                path, f"tensor {shown(name)} is said to be in {shown(str(file))}, which is no file beside it"
            )
    return Index(found, metadata)


def single_file(names: Collection[str]) -> str | None:
    """The one file that has all the weights, out of the names in a folder; None where an index is needed.

    As transformers does, one called `SINGLE` comes before an index. One of any other name will do where
    nothing else is there: drafters have it.
    """
    found = [name for name in names if name.endswith(".safetensors")]
    if SINGLE in found:
        return SINGLE
    return found[0] if len(found) == 1 and INDEX not in names else None
