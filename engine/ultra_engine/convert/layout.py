"""The files of a checkpoint that is to be written, planned from headers alone: every size is known before a
weight is read, so the same model and options always give the same files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import UnsupportedModel
from ..weights.checkpoint import Checkpoint
from ..weights.gguf_cursor import shown
from ..weights.shard import BITS, Entry
from .mxfp4 import GROUP
from .selection import Target, natural


@dataclass(frozen=True)
class Shard:
    """One file: first tensors that are copied, then what is quantised."""

    name: str
    copies: tuple[Entry, ...]
    targets: tuple[Target, ...]

    @cached_property
    def entries(self) -> list[Entry]:
        """Every tensor of the file, in order."""
        return [*self.copies, *(entry for target in self.targets for entry in (target.codes, target.powers))]

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


def plan(checkpoint: Checkpoint, targets: Sequence[Target], limit: int) -> list[Shard]:
    """Files of at most ``limit`` bytes of tensors, or one tensor; those of a layer stay together.

    Raises `UnsupportedModel` where a tensor would be called as another is.
    """
    sources = {matrix.source for target in targets for matrix in target.matrices}
    gone = sources | {source + "_scale_inv" for source in sources}
    copies = [entry for name, entry in checkpoint.tensors.items() if name not in gone]
    items: list[Entry | Target] = sorted([*copies, *targets], key=lambda item: natural(item.name))
    groups: list[list[Entry | Target]] = [[]]
    size = 0
    for item in items:
        need = _bytes(item)
        if groups[-1] and size + need > limit:
            groups.append([])
            size = 0
        groups[-1].append(item)
        size += need
    total = len(groups)
    shards = [
        _shard(f"model-{number:05}-of-{total:05}.safetensors", group)
        for number, group in enumerate(groups, start=1)
    ]
    for name, count in Counter(entry.name for shard in shards for entry in shard.entries).items():
        if count > 1:
            raise UnsupportedModel(f"{checkpoint.path}: there would be several tensors {shown(name)}")
    return shards


def _bytes(item: Entry | Target) -> int:
    return item.nbytes if isinstance(item, Entry) else item.codes.nbytes + item.powers.nbytes


def _shard(name: str, items: Sequence[Entry | Target]) -> Shard:
    # The widest dtypes first, so that each tensor begins at a multiple of its element's size.
    copies = sorted((i for i in items if isinstance(i, Entry)), key=lambda entry: -BITS[entry.dtype])
    return Shard(name, tuple(copies), tuple(i for i in items if isinstance(i, Target)))


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
    """config.json with the words that say where MXFP4 is."""
    if source.get("model_type") == "gpt_oss":
        quantisation: dict[str, object] = {"quant_method": "mxfp4", "modules_to_not_convert": _GPT_OSS}
    else:
        known = source.get("quantization_config")
        quantisation = dict(known) if isinstance(known, dict) else _as_mimo(shards)
        quantisation |= {"store_dtype": "mxfp4", "mxfp4_block_size": GROUP}
    content = {**source, "quantization_config": quantisation}
    return json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"


_GPT_OSS = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]


def _as_mimo(shards: Sequence[Shard]) -> dict[str, object]:
    """Matrices that are floats as before are named: ``quant_method: fp8`` says of all others that they are
    FP8."""
    plain = [
        entry.name.removesuffix(".weight")
        for shard in shards
        for entry in shard.copies
        if len(entry.shape) > 1 and entry.name.endswith(".weight")
    ]
    return {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
        "ignored_layers": sorted(plain, key=natural),
    }
