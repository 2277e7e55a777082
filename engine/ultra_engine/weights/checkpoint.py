"""Safetensors checkpoints: a folder with config.json and one file of weights, or several and their index."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import ModelFileError, UnsupportedModel
from .borrow import borrow
from .gguf_cursor import shown
from .index import INDEX, SINGLE, read_index, single_file
from .json_file import read_object
from .shard import BITS, Entry, Shard

RELEASE_BYTES = 256 << 20
"""After so many bytes of tensors their pages are given back; who still uses a view reads them again."""

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}


class Checkpoint:
    """An open checkpoint; use `open`, and close it or use it as a context manager.

    path: the folder. config: its config.json. index_metadata: ``metadata`` of the index, {} without one.
    tensors: every tensor by name.
    """

    def __init__(
        self, path: Path, config: dict[str, Any], index_metadata: dict[str, Any], shards: Mapping[str, Shard]
    ) -> None:
        self.path, self.config, self.index_metadata = path, config, index_metadata
        self._shards = shards
        self._read, self._lock = 0, threading.Lock()
        self._places = dict(_places(shards))
        self.tensors: Mapping[str, Entry] = {
            name: shard.tensors[name] for name, shard in self._places.items()
        }

    @classmethod
    def open(cls, path: str | Path) -> Checkpoint:
        """Map every file and read its header. Raises `ModelFileError` for any fault in them."""
        path = Path(path)
        config = read_object(path / "config.json")
        names = [file.name for file in path.glob("*.safetensors*")]
        single = single_file(names)
        if single is None and INDEX not in names:
            count = sum(name.endswith(".safetensors") for name in names)
            there = f"there are {count} safetensors files, but" if count else "there are no weights:"
            raise ModelFileError(path, f"{there} neither {SINGLE} nor {INDEX}")
        index = read_index(path / INDEX) if single is None else None
        shards: dict[str, Shard] = {}
        try:
            for name in index.files if index is not None else [str(single)]:
                shards[name] = Shard(_inside(path, name))
            found = cls(path, config, index.metadata if index is not None else {}, shards)
            if index is not None:
                found._check_index(index.weight_map)
        except BaseException:
            for shard in shards.values():
                shard.close()
            raise
        return found

    def _check_index(self, listed: Mapping[str, str]) -> None:
        """The index and the files speak of the same tensors."""
        for name, file in listed.items():
            if name not in self._shards[file].tensors:
                reason = f"there is no tensor {shown(name)}, though {INDEX} says so"
                raise ModelFileError(self._shards[file].path, reason)
        for name, shard in self._places.items():
            if name not in listed:
                raise ModelFileError(
                    self.path / INDEX, f"tensor {shown(name)} of {shard.path.name} is missing"
                )

    def file(self, name: str) -> Path:
        """The file that a tensor is in, or would be in: what an error names."""
        return self._places[name].path if name in self._places else self.path

    def entry(self, name: str) -> Entry:
        """The entry of a tensor. Raises `ModelFileError` if there is none of that name."""
        if name not in self.tensors:
            raise ModelFileError(self.path, f"there is no tensor {shown(name)}")
        return self.tensors[name]

    def tensor(self, name: str) -> torch.Tensor:
        """The whole tensor in its stored dtype: a view of the mapped file, which nobody may write to.

        Raises `ModelFileError` if there is none, `UnsupportedModel` for a dtype that PyTorch does not have.
        """
        entry = self.entry(name)
        return self._view(entry, 0, entry.nbytes).reshape(entry.shape)

    def rows(self, name: str, start: int, stop: int) -> torch.Tensor:
        """`tensor` [start:stop] along its first dimension; only those bytes are touched."""
        entry = self.entry(name)
        assert entry.shape and 0 <= start <= stop <= entry.shape[0], f"rows {start}:{stop} of {entry}"
        row = entry.nbytes // entry.shape[0] if entry.shape[0] else 0
        return self._view(entry, start * row, stop * row).reshape(stop - start, *entry.shape[1:])

    def flat(self, name: str, start: int, stop: int) -> torch.Tensor:
        """Elements [start, stop) of a tensor in the order of its memory; only those bytes are touched."""
        entry = self.entry(name)
        size = BITS[entry.dtype] // 8
        return self._view(entry, start * size, stop * size)

    def _view(self, entry: Entry, start: int, stop: int) -> torch.Tensor:
        if entry.dtype not in _DTYPES:
            raise UnsupportedModel(f"{self.file(entry.name)}: tensor {shown(entry.name)} is {entry.dtype}")
        self._count(stop - start)
        data = self._places[entry.name].data(entry.name, start, stop)
        if data.ctypes.data % (BITS[entry.dtype] // 8):
            data = data.copy()  # the format promises no alignment, PyTorch expects it
        return borrow(data).view(_DTYPES[entry.dtype])

    def _count(self, more: int) -> None:
        """Give back what was read before, now and then: who reads many tensors has few pages in memory."""
        with self._lock:
            self._read += more
            if self._read <= RELEASE_BYTES:
                return
            self._read = more
        self.release()

    def release(self) -> None:
        """Give back the memory of the pages read so far; they are read again when they are touched."""
        for shard in self._shards.values():
            shard.release()

    def close(self) -> None:
        """Release the files; tensors handed out stay valid until they are dropped themselves."""
        for shard in self._shards.values():
            shard.close()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _inside(path: Path, name: str) -> Path:
    """The file ``name`` of a folder. A link may not lead out of it, except to the blobs of a hub cache."""
    file = path / name
    try:
        folder, found = path.resolve(), file.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
        raise ModelFileError(file, f"cannot be found: {' '.join(str(error).split())}") from None
    blobs = folder.parent.parent / "blobs"  # <cache>/models--org--name/snapshots/<revision> -> ../../blobs
    if found.parent != folder and not (folder.parent.name == "snapshots" and found.parent == blobs):
        raise ModelFileError(file, f"is a link out of its folder, to {found}")
    return file


def _places(shards: Mapping[str, Shard]) -> Iterator[tuple[str, Shard]]:
    seen: dict[str, str] = {}
    for file, shard in shards.items():
        for name in shard.tensors:
            if name in seen:
                raise ModelFileError(shard.path, f"tensor {shown(name)} is in {seen[name]} too")
            seen[name] = file
            yield name, shard
