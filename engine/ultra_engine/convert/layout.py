"""The files of a checkpoint that is to be written, planned from headers alone: every size is known before a
weight is read, so the same model and options always give the same files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..weights.checkpoint import Checkpoint
from ..weights.shard import BITS, Entry
from .mxfp4 import GROUP
from .selection import Matrix, natural


@dataclass(frozen=True)
class Shard:
    """One file: first tensors that are copied, then matrices that are quantised."""

    name: str
    copies: tuple[Entry, ...]
    matrices: tuple[Matrix, ...]

    @cached_property
    def entries(self) -> list[Entry]:
        """Every tensor of the file, in order."""
        quantised = [entry for matrix in self.matrices for entry in outputs(matrix)]
        return [*self.copies, *quantised]

    @cached_property
    def header(self) -> bytes:
        """What is before the tensors: 8 bytes with a length, and the JSON, padded to a multiple of 8."""
        fields: dict[str, object] = {"__metadata__": {"format": "pt"}}
        at = 0
        for entry in self.entries:
            ends = [at, at + entry.nbytes]
            fields[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": ends}
            at = ends[1]
        text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text

    @property
    def data_bytes(self) -> int:
        return sum(entry.nbytes for entry in self.entries)

    @property
    def bytes(self) -> int:
        return len(self.header) + self.data_bytes


def outputs(matrix: Matrix) -> tuple[Entry, Entry]:
    """What a matrix becomes: U8 [rows, columns / 2] and its scales, U8 [rows, columns / 32]."""
    rows, columns = matrix.rows, matrix.columns
    scale = matrix.name + "_scale"
    return Entry(matrix.name, "U8", (rows, columns // 2)), Entry(scale, "U8", (rows, columns // GROUP))


def plan(checkpoint: Checkpoint, matrices: Sequence[Matrix], limit: int) -> list[Shard]:
    """Files of at most ``limit`` bytes of tensors, or one tensor; those of a layer stay together."""
    sources = {matrix.source for matrix in matrices}
    gone = sources | {source + "_scale_inv" for source in sources}
    copies = [entry for name, entry in checkpoint.tensors.items() if name not in gone]
    items: list[Entry | Matrix] = sorted([*copies, *matrices], key=lambda item: natural(item.name))
    groups: list[list[Entry | Matrix]] = [[]]
    size = 0
    for item in items:
        need = _bytes(item)
        if groups[-1] and size + need > limit:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += need
    total = len(groups)
    return [
        _shard(f"model-{number:05}-of-{total:05}.safetensors", group)
        for number, group in enumerate(groups, start=1)
    ]


def _bytes(item: Entry | Matrix) -> int:
    return item.nbytes if isinstance(item, Entry) else sum(entry.nbytes for entry in outputs(item))


def _shard(name: str, items: Iterable[Entry | Matrix]) -> Shard:
    items = list(items)
    # The widest dtypes first, so that each tensor begins at a multiple of its element's size.
    copies = sorted((i for i in items if isinstance(i, Entry)), key=lambda entry: -BITS[entry.dtype])
    return Shard(name, tuple(copies), tuple(i for i in items if isinstance(i, Matrix)))


def index(shards: Sequence[Shard], metadata: dict[str, object]) -> bytes:
    """The index file: the source's metadata, brought up to date, and which tensor is in which file."""
    found = {entry.name: shard.name for shard in shards for entry in shard.entries}
    total = sum(shard.data_bytes for shard in shards)
    content = {
        "metadata": {**metadata, "total_size": total, "save_format": "mxfp4"},
        "weight_map": dict(sorted(found.items())),
    }
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"


def config(source: dict[str, object], shards: Sequence[Shard]) -> bytes:
    """config.json with the words that say where MXFP4 is. Matrices that are floats as before are named, since
    ``quant_method: fp8`` says of all others that they are FP8."""
    known = source.get("quantization_config")
    if isinstance(known, dict):
        quantisation = dict(known)
    else:
        plain = [
            entry.name.removesuffix(".weight")
            for shard in shards
            for entry in shard.copies
            if len(entry.shape) > 1 and entry.name.endswith(".weight")
        ]
        quantisation = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
            "ignored_layers": sorted(plain, key=natural),
        }
    quantisation |= {"store_dtype": "mxfp4", "mxfp4_block_size": GROUP}
    content = {**source, "quantization_config": quantisation}
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
