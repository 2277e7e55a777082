"""Whether a model on disk is what it should be, file by file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import ModelFileError, UnsupportedModel
from ..weights import cache, registry
from ..weights.progress import Meter

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a file, or the whole, turned out to be. ``good`` is None where nothing says what it should be."""

    path: Path
    good: bool | None
    words: str
    sha256: str | None = None


def verify(name: str, path: Path, quiet: bool = False) -> list[Finding]:
    """Structure and sums of a GGUF file or a safetensors folder; it takes the time of reading all of it."""
    if path.is_dir():
        return [*_structure(path), *_sums(path, quiet)]
    model = registry.find(name)
    return [_file(path, model.sha256 if model else None, model.bytes if model else None, quiet)]


def _file(path: Path, right: str | None, size: int | None, quiet: bool) -> Finding:
    """A GGUF file: by its sum where that is known, else by its structure."""
    found, actual = _hash(path, quiet), path.stat().st_size
    if right is not None and found == right:
        cache.stamp(path, found)
        return Finding(path, True, "ok", found)
    if size is not None and actual != size:
        return Finding(path, False, f"is damaged: {actual:,} bytes, not {size:,}", found)
    if right is not None:
        return Finding(path, False, "is damaged: another sha256", found)
    known = cache.noted(path)
    broken = _broken(path)
    if broken is not None:
        return Finding(path, False, f"is damaged: {broken}", found)
    if known is not None and known != found:
        return Finding(path, False, "is damaged: another sha256 than when it was downloaded", found)
    if known is not None:
        return Finding(path, True, "ok", found)
    return Finding(path, None, "its structure is sound; nothing to compare with", found)


def _broken(path: Path) -> str | None:
    from ..weights.gguf import GGUFFile

    try:
        with GGUFFile.open(path):
            return None
    except ModelFileError as error:
        return error.reason


def _structure(folder: Path) -> Iterator[Finding]:
    """Headers, sizes and the index agree, and every weight is there."""
    from ..models import read_config, recipes
    from ..weights.checkpoint import Checkpoint

    try:
        with Checkpoint.open(folder) as checkpoint:
            try:
                recipes(read_config(checkpoint), checkpoint)
            except UnsupportedModel as error:
                yield Finding(folder, None, f"sound, but not run here: {error}")
                return
            files = len({checkpoint.file(name) for name in checkpoint.tensors})
            words = f"ok: {len(checkpoint.tensors):,} tensors in {files} file{'s' if files > 1 else ''}"
            yield Finding(folder, True, words)
    except ModelFileError as error:
        yield Finding(Path(error.path), False, f"is damaged: {error.reason}")
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json")):
        yield Finding(folder, None, "there is no tokenizer.json: it can be read, but not be talked to")


def _sums(folder: Path, quiet: bool) -> Iterator[Finding]:
    """Sums of the files that somebody noted the sum of: `ultra convert`, a download, or the hub's cache,
    where a file is a link to one that is called by its sum."""
    noted = _noted(folder)
    for path in sorted(folder.rglob("*.safetensors")):
        target = path.resolve()
        right = noted.get(path.name) if path.parent == folder else None
        right = right or cache.noted(path)
        if right is None and _SHA256.fullmatch(target.name):
            right = target.name
        if right is None:
            continue
        found = _hash(path, quiet)
        good = found == right
        yield Finding(path, good, "ok" if good else "is damaged: another sha256", found)


def _noted(folder: Path) -> dict[str, str]:
    from ..convert.journal import REPORT

    try:
        found = json.loads((folder / REPORT).read_bytes())["sha256"]
        return {str(name): str(value) for name, value in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _hash(path: Path, quiet: bool) -> str:
    with Meter(f"checking {path.name}", path.stat().st_size, not quiet) as meter:
        return cache.file_sha256(path, meter.update)
