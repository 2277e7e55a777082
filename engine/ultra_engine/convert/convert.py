"""A checkpoint in, the same with some of its matrices in MXFP4 out; one matrix at a time in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from ultra_kernels.cpu.processors import default_threads

from .. import __version__
from ..errors import ConversionError, ModelFileError
from ..weights import cache
from ..weights.checkpoint import Checkpoint
from ..weights.gguf_cursor import shown
from ..weights.index import INDEX
from ..weights.shard import BITS, Entry
from ..weights.summary import bytes_text
from . import card, layout
from .journal import REPORT, Journal, Note, fingerprint
from .layout import Shard
from .mxfp4 import Encoded, Loss, NotFinite, Scale, encode
from .report import Losses
from .selection import Matrix, Target, select

SHARD_BYTES = 5_000_000_000
"""Bytes of tensors in one file, at most, where one tensor is not larger."""

_WRITE = 16 << 20
"""Bytes that are copied between two reports of progress."""

_RELEASE = 1 << 28
"""Bytes that are written before the pages of the source that were read for them are given back."""

_NOT_COPIED = {".safetensors", ".bin", ".pth", ".pt", ".gguf", ".onnx", ".h5", ".msgpack", ".ckpt"}
"""Other forms of the weights."""

_ROOM = 4 << 20
"""Bytes for the small files that are made."""

Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What was made. ``before`` and ``after`` are bytes of weights."""

    folder: Path
    losses: Losses
    before: int
    after: int
    resumed: int
    """Files that an earlier run had finished."""


class Conversion:
    """One model, what is to become of it, and the files that this makes: known before anything is written."""

    def __init__(
        self,
        source: Path,
        folder: Path,
        formats: Mapping[str, str],
        scale: Scale = "mse",
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        """Read the headers. Raises `ModelFileError`, `UnsupportedModel`, or `ConversionError` for roles that
        are not converted and for a folder inside the source."""
        self.source, self.folder = source, folder
        self._formats, self._scale = dict(formats), scale
        here, there = source.resolve(), folder.resolve()
        if here == there or here in there.parents:
            raise ConversionError(f"{folder} is in the model that is read: choose another folder")
        self._checkpoint = Checkpoint.open(source)
        try:
            targets = select(self._checkpoint, formats)
            self.shards = layout.plan(self._checkpoint, targets, shard_bytes)
        except BaseException:
            self.close()
            raise
        self._files = sorted(_other_files(source))
        self._pool: Executor | None = None
        self._mark = fingerprint(self._job(shard_bytes))

    @property
    def bytes(self) -> int:
        """Of all files of weights."""
        return sum(shard.bytes for shard in self.shards)

    @property
    def before(self) -> int:
        """Bytes of the tensors of the source."""
        return sum(entry.nbytes for entry in self._checkpoint.tensors.values())

    def run(self, tick: Tick = lambda done: None) -> Result:
        """Write everything that is not there yet. ``tick`` gets the bytes of weights written so far.

        What a run has finished stays when it is interrupted, and the next one goes on from there. Raises
        `ConversionError` for a folder that is not ours, for weights that are not finite, and for a disk that
        is full or cannot be written.
        """
        try:
            journal = Journal(self.folder, self._mark)
            if journal.finished():
                return self._result(_recorded(self.folder / REPORT), resumed=len(self.shards))
            self._check_room()
            with journal, _own_threads() as self._pool:
                return self._write(journal, tick)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConversionError(
                f"{self.folder} cannot be written: {reason}; what is finished stays, the same command goes on"
            ) from error

    def close(self) -> None:
        """Release the source."""
        self._checkpoint.close()

    def __enter__(self) -> Conversion:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _job(self, shard_bytes: int) -> dict[str, object]:
        """All that decides what is written."""
        entries = [(e.name, e.dtype, e.shape) for e in self._checkpoint.tensors.values()]
        files = {self._checkpoint.file(name) for name in self._checkpoint.tensors}
        stats = {str(path.resolve()): path.stat() for path in [*files, self.source / "config.json"]}
        return {
            "version": __version__,
            "formats": self._formats,
            "scale": self._scale,
            "shard_bytes": shard_bytes,
            "tensors": sorted(entries),
            "files": sorted((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()),
        }

    def _check_room(self) -> None:
        """The whole result must fit, less what is there."""
        there = (
            sum(p.stat().st_size for p in self.folder.glob("model-*.safetensors"))
            if self.folder.is_dir()
            else 0
        )
        copied = sum((self.source / name).stat().st_size for name in self._files)
        need, free = self.bytes + copied + _ROOM - there, cache.free_bytes(self.folder.absolute())
        if free < need:
            raise ConversionError(
                f"{self.folder} needs {bytes_text(need)} of disk, {bytes_text(free)} are free: "
                f"free some, or choose another folder"
            )

    def _write(self, journal: Journal, tick: Tick) -> Result:
        notes: dict[str, Note] = {}
        done = resumed = 0
        for shard in self.shards:
            note = journal.note(shard)
            if note is None:
                note = self._shard(journal, shard, lambda n, start=done: tick(start + n))  # type: ignore[misc]
            else:
                resumed += 1
            notes[shard.name] = note
            done += shard.bytes
            tick(done)
        losses = Losses(note.losses for note in notes.values())
        self._finish(journal, losses, {name: note.sha256 for name, note in notes.items()})
        return self._result(losses, resumed)

    def _shard(self, journal: Journal, shard: Shard, tick: Tick) -> Note:
        """Write one file."""

        def fill(file: BinaryIO) -> Note:
            losses = Losses()
            out = _Out(file, self._checkpoint, tick)
            out.write(memoryview(shard.header))
            for entry in shard.copies:
                out.write(_raw(self._checkpoint, entry))
            for target in shard.targets:
                losses.add(target.label, self._target(target, out))
            return Note(losses.plain(), out.sha256)

        return journal.finish(shard, fill)

    def _target(self, target: Target, out: _Out) -> Loss:
        loss, powers = Loss(), []
        for matrix in target.matrices:
            encoded = self._encode(matrix)
            out.write(_memory(encoded.weight))
            powers.append(encoded.scale)
            loss += encoded.loss
        for scale in powers:
            out.write(_memory(scale))
        return loss

    def _encode(self, matrix: Matrix) -> Encoded:
        try:
            return encode(matrix.read(self._checkpoint), self._scale, self._pool)
        except NotFinite as error:
            which = "" if matrix.expert is None else f" (expert {matrix.expert})"
            raise ModelFileError(
                self._checkpoint.file(matrix.source),
                f"tensor {shown(matrix.source)}{which}: {error}, so it cannot be quantised",
            ) from None

    def _finish(self, journal: Journal, losses: Losses, sums: Mapping[str, str]) -> None:
        """The files that make a checkpoint of the weights; the index comes last."""
        for name in self._files:
            journal.copy(self.source / name, Path(card.SOURCE_CARD) if name == Path(card.NAME) else name)
        family, how = self._checkpoint.config.get("model_type"), (self._formats, self._scale)
        text = card.card(self.source, family, *how, losses.total, self.bytes, self.before)
        journal.write(self.folder / card.NAME, text)
        report = {
            "fingerprint": self._mark,
            "version": __version__,
            "formats": self._formats,
            "scale": self._scale,
            "bytes": {"before": self.before, "after": self.bytes},
            "sha256": dict(sums),
            "relative_rms": round(losses.total.relative_rms, 8),
            "layers": losses.rows(),
            "sums": losses.plain(),
        }
        journal.write(self.folder / REPORT, json.dumps(report, indent=1).encode() + b"\n")
        journal.write(self.folder / "config.json", layout.config(self._checkpoint.config, self.shards))
        journal.write(self.folder / INDEX, layout.index(self.shards, self._checkpoint.index_metadata))
        journal.close()

    def _result(self, losses: Losses, resumed: int) -> Result:
        return Result(self.folder, losses, self.before, self.bytes, resumed)


@contextmanager
def _own_threads() -> Iterator[Executor]:
    """A thread for each processor, PyTorch using no others: its own wait for each other by spinning, which is
    many times slower where another process has a processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(default_threads(), thread_name_prefix="ultra-convert") as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


class _Out:
    """A file that is written, and the source that is read for it: says how far it is, keeps memory small."""

    def __init__(self, file: BinaryIO, checkpoint: Checkpoint, tick: Tick) -> None:
        self._file, self._checkpoint, self._tick = file, checkpoint, tick
        self._done = self._since = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: memoryview) -> None:
        for start in range(0, len(data), _WRITE):
            part = data[start : start + _WRITE]
            written = self._file.write(part)
            self._digest.update(part)
            self._done += written
            self._since += written
            self._tick(self._done)
            if self._since > _RELEASE:
                self._checkpoint.release()
                self._since = 0


def _memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a uint8 tensor, where they lie."""
    data: Any = tensor.contiguous().numpy()
    return memoryview(data).cast("B")


def _raw(checkpoint: Checkpoint, entry: Entry) -> memoryview:
    """The bytes of a tensor, where they lie."""
    count = entry.nbytes * 8 // BITS[entry.dtype]
    if not count:
        return memoryview(b"")
    return _memory(checkpoint.flat(entry.name, 0, count).view(torch.uint8))


def _other_files(source: Path) -> list[Path]:
    """What a checkpoint has besides its weights: tokenizer, templates, licence; and whole folders that have a
    config.json, such as a drafter. Relative paths."""

    def passed(path: Path) -> bool:
        return path.name.startswith(".") or path.suffix == ".verified"  # notes of our cache on its files

    found = []
    for path in source.iterdir():
        if passed(path):
            continue
        if path.is_dir():
            if (path / "config.json").is_file():
                found += [p.relative_to(source) for p in path.rglob("*") if p.is_file() and not passed(p)]
        elif path.suffix not in _NOT_COPIED and path.name not in ("config.json", INDEX, REPORT):
            found.append(path.relative_to(source))
    return found


def _recorded(report: Path) -> Losses:
    sums: Sequence[Mapping[str, Sequence[float]]] = [json.loads(report.read_bytes())["sums"]]
    return Losses(sums)
