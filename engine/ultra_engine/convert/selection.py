"""Which tensors of a checkpoint become MXFP4, by their names, and how the matrices lie in them.

Experts are stored one by one (``mlp.experts.3.gate_proj.weight`` [rows, columns]), or fused as transformers 5
has them in memory: ``mlp.experts.gate_up_proj`` [experts, 2 * wide, hidden] with the gate's rows before
those of up, ``mlp.experts.down_proj`` [experts, hidden, wide]. Either way they are one by one afterwards,
as in MiMo's checkpoints.

gpt-oss has both transposed, and gate and up alternate. Nobody reads it in MiMo's form, so it takes that of
its published checkpoints: ``gate_up_proj_blocks`` uint8 [experts, rows, columns / 32, 16] and
``gate_up_proj_scales``.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import torch

from ..errors import ConversionError, UnsupportedModel
from ..weights.checkpoint import Checkpoint
from ..weights.gguf_cursor import shown
from ..weights.shard import Entry
from .mxfp4 import GROUP

Role = Literal["experts", "mlp"]

ROLES: tuple[Role, ...] = ("experts", "mlp")
"""What may be quantised."""

KEPT = {
    "attention": "it is a small part of the bytes, and errors in it move every later position",
    "router": "an error there sends tokens to other experts",
    "norms": "they are vectors",
    "embeddings": "a row is read per token, not the table",
    "head": "it decides between tokens that are close",
}
"""What is never quantised, and why."""

SQUARE = 128
"""Rows and columns that share a scale of an FP8 weight."""

_ONE = re.compile(r"(.*\blayers\.(\d+)\.mlp)\.experts\.(\d+)\.(gate|up|down)_proj\.weight")
_FUSED = re.compile(r"(.*\blayers\.(\d+)\.mlp)\.experts\.(gate_up|down)_proj")
_DENSE = re.compile(r"(.*\blayers\.(\d+)\.mlp)\.(gate|up|down)_proj\.weight")
_FLOATS = ("BF16", "F16", "F32")


@dataclass(frozen=True, slots=True)
class Matrix:
    """One matrix [rows, columns]: the tensor ``source``, or a part of it."""

    source: str
    rows: int
    columns: int
    expert: int | None = None
    """Which of the first dimension of a fused tensor."""
    first: int = 0
    """The row of the fused tensor that it begins with."""
    transposed: bool = False

    def read(self, checkpoint: Checkpoint) -> torch.Tensor:
        """The weights; of FP8 ones, their values as float32, which is what the format says they are."""
        if self.expert is None:
            whole = checkpoint.tensor(self.source)
            scales = self.source + "_scale_inv"
            return _from_fp8(whole, checkpoint.tensor(scales)) if scales in checkpoint.tensors else whole
        whole = checkpoint.rows(self.source, self.expert, self.expert + 1)[0]
        return (whole.T if self.transposed else whole)[self.first : self.first + self.rows]


@dataclass(frozen=True, slots=True)
class Target:
    """What some matrices become: two tensors, first the codes of all of them, then all their powers."""

    layer: int
    projection: str
    """"gate", "up", "gate_up" or "down"."""
    role: Role
    codes: Entry
    powers: Entry
    matrices: tuple[Matrix, ...]

    @property
    def name(self) -> str:
        return self.codes.name

    @property
    def label(self) -> str:
        """Those of a layer with the same label are reported together."""
        return f"{self.layer}.{self.role}.{self.projection}"


def _from_fp8(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    wide = scales.float().repeat_interleave(SQUARE, 0)[: codes.shape[0]].repeat_interleave(SQUARE, 1)
    return codes.float() * wide[:, : codes.shape[1]]


def select(checkpoint: Checkpoint, formats: Mapping[str, str]) -> list[Target]:
    """What ``formats`` (role -> "mxfp4") asks for, in the order of layers and experts.

    Raises `ConversionError` for a role that stays as it is or that the model does not have,
    `UnsupportedModel` for tensors that cannot be quantised.
    """
    for role, format in formats.items():
        if role in KEPT:
            raise ConversionError(f"{role} stays as it is: {KEPT[role]}; --experts and --mlp are what can be")
        if role not in ROLES or format != "mxfp4":
            raise ConversionError(f"{role} cannot become {format}: there are {', '.join(ROLES)} and mxfp4")
    if not formats:
        raise ConversionError(
            "say what is to be quantised: --experts mxfp4, or --mlp mxfp4 for a dense model"
        )
    _check_method(checkpoint)
    found = [
        target for entry in checkpoint.tensors.values() for target in _targets(checkpoint, entry, formats)
    ]
    for role in formats:
        if not any(target.role == role for target in found):
            raise ConversionError(f"{checkpoint.path}: {_ABSENT[role]}")
    return sorted(found, key=lambda target: natural(target.name))


_ABSENT = {
    "experts": "there are no experts, the model is dense: --mlp mxfp4 quantises its MLPs",
    "mlp": "there are no dense MLPs: --experts mxfp4 quantises the experts",
}


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts numbers in names by their value."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(p), "") if p.isascii() and p.isdigit() else (1, 0, p) for p in parts]


def _check_method(checkpoint: Checkpoint) -> None:
    """Weights are floats, or FP8 in squares of 128 x 128; what is in fewer bits is not rounded again."""
    config = checkpoint.config.get("quantization_config")
    if config is None:
        return
    method = config.get("quant_method") if isinstance(config, dict) else None
    if method != "fp8" or config.get("store_dtype") == "mxfp4":
        what = "mxfp4" if method == "fp8" else str(method)
        raise ConversionError(
            f"{checkpoint.path} is quantised already ({what}): convert the original, which has more bits"
        )


def _targets(checkpoint: Checkpoint, entry: Entry, roles: Container[str]) -> Iterator[Target]:
    """What a tensor is to become; nothing for all that stays as it is."""
    name = entry.name
    if "mtp" in name.split("."):
        return  # the layers that guess several tokens ahead have no experts, and are not run here
    if "mlp" in roles and (match := _DENSE.fullmatch(name)):
        yield _single(checkpoint, entry, "mlp", match[2], match[3])
    if "experts" not in roles or ".experts." not in name:
        return
    if match := _ONE.fullmatch(name):
        yield _single(checkpoint, entry, "experts", match[2], match[4])
    elif match := _FUSED.fullmatch(name):
        yield from _fused(checkpoint, entry, match)
    elif not name.endswith(("_bias", ".bias", "_scale_inv")):
        _refuse(checkpoint, entry, "is no form of an expert that is known here")


def _single(checkpoint: Checkpoint, entry: Entry, role: Role, layer: str, projection: str) -> Target:
    if len(entry.shape) != 2:
        _refuse(checkpoint, entry, f"is {list(entry.shape)}, not a matrix")
    if entry.dtype == "F8_E4M3":
        _check_scales(checkpoint, entry)
    elif entry.dtype not in _FLOATS:
        _refuse(checkpoint, entry, f"is {entry.dtype}, which is not rounded again")
    _check_size(checkpoint, entry, *entry.shape)
    return _one(entry.name, int(layer), projection, role, Matrix(entry.name, *entry.shape))


def _one(name: str, layer: int, projection: str, role: Role, matrix: Matrix) -> Target:
    """A matrix in MiMo's form."""
    codes = Entry(name, "U8", (matrix.rows, matrix.columns // 2))
    powers = Entry(name + "_scale", "U8", (matrix.rows, matrix.columns // GROUP))
    return Target(layer, projection, role, codes, powers, (matrix,))


def _fused(checkpoint: Checkpoint, entry: Entry, match: re.Match[str]) -> Iterator[Target]:
    if len(entry.shape) != 3 or entry.dtype not in _FLOATS:
        _refuse(checkpoint, entry, f"is {entry.dtype} {list(entry.shape)}, not floats of three dimensions")
    experts, rows, columns = entry.shape
    layer = int(match[2])
    if checkpoint.config.get("model_type") == "gpt_oss":
        rows, columns = columns, rows
        _check_size(checkpoint, entry, rows, columns)
        matrices = tuple(Matrix(entry.name, rows, columns, e, transposed=True) for e in range(experts))
        codes = Entry(entry.name + "_blocks", "U8", (experts, rows, columns // GROUP, GROUP // 2))
        powers = Entry(entry.name + "_scales", "U8", (experts, rows, columns // GROUP))
        yield Target(layer, match[3], "experts", codes, powers, matrices)
        return
    names: Sequence[str] = ("gate", "up") if match[3] == "gate_up" else ("down",)
    if rows % len(names):
        _refuse(checkpoint, entry, f"has {rows} rows, which are not gate and up")
    each = rows // len(names)
    _check_size(checkpoint, entry, each, columns)
    for expert in range(experts):
        for number, projection in enumerate(names):
            matrix = Matrix(entry.name, each, columns, expert, number * each)
            name = f"{match[1]}.experts.{expert}.{projection}_proj.weight"
            yield _one(name, layer, projection, "experts", matrix)


def _check_scales(checkpoint: Checkpoint, entry: Entry) -> None:
    scales = checkpoint.entry(entry.name + "_scale_inv")
    grid = tuple(-(-size // SQUARE) for size in entry.shape)
    if scales.shape != grid or scales.dtype not in ("F32", "BF16"):
        _refuse(checkpoint, scales, f"is {scales.dtype} {list(scales.shape)}, not float scales {list(grid)}")


def _check_size(checkpoint: Checkpoint, entry: Entry, rows: int, columns: int) -> None:
    if not rows or not columns or columns % GROUP:
        _refuse(checkpoint, entry, f"has rows of {columns}, which is not made of groups of {GROUP}")


def _refuse(checkpoint: Checkpoint, entry: Entry, reason: str) -> NoReturn:
    raise UnsupportedModel(f"{checkpoint.file(entry.name)}: tensor {shown(entry.name)} {reason}")
