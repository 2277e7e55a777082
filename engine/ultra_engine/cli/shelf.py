"""What models are on this disk: those of our cache, and those that the hub's own tools put into theirs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ultra_sdk.protocol import runtime

from ..errors import DownloadError, ModelError
from ..weights import cache, hub, registry
from ..weights.registry import Model


@dataclass(frozen=True, slots=True)
class Held:
    """A model on disk. ``path`` is a file or a folder, ``bytes`` what it takes there."""

    name: str
    path: Path
    bytes: int
    shared: bool
    """In the hub's cache, whose files other revisions may share."""


def ours() -> Iterator[Held]:
    """Models of our cache, whole ones: GGUF files and folders with a config.json."""
    root = cache.models_dir()
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        name = folder.name.replace("--", "/")
        files = [file for file in sorted(folder.glob("*.gguf")) if file.is_file()]
        if (folder / "config.json").is_file():
            yield Held(name, folder, size_of(folder), False)
        for file in files:
            known = registry.find(folder.name)
            label = name if known is not None or len(files) == 1 else f"{name}:{file.name}"
            yield Held(label, file, file.stat().st_size, False)


def of_the_hub() -> Iterator[Held]:
    """Safetensors models in the hub's cache, the newest revision of each."""
    from huggingface_hub.constants import HF_HUB_CACHE

    root = Path(HF_HUB_CACHE)
    for folder in sorted(root.glob("models--*--*")) if root.is_dir() else []:
        found = sorted(folder.glob("snapshots/*/config.json"), key=lambda path: path.stat().st_mtime)
        if found and any(found[-1].parent.glob("*.safetensors")):
            name = folder.name.removeprefix("models--").replace("--", "/")
            yield Held(name, found[-1].parent, size_of(folder / "blobs"), True)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.stat().st_size if path.exists() else 0
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def path_of(name: str) -> Path:
    """The file or folder of a model on disk, by name or path; nothing is downloaded. Raises `ModelError`."""
    from .folders import cached, is_repo

    if registry.find(name) is None:
        local = Path(name).expanduser()
        if local.is_dir():
            return local
        folder = cached(name) if is_repo(name) and not local.exists() else None
        if folder is not None:
            return folder
    return hub.resolve(name, offline=True)


def to_remove(name: str) -> list[Path]:
    """Whole folders of our cache that are ``name``, with what an interrupted download left there.

    Raises `UnknownModel` for what is no name; nothing outside the cache is ever removed.
    """
    from .folders import is_repo

    model = registry.find(name)
    if model is None and not is_repo(name):
        raise registry.unknown(name)
    folder = hub.path_of(model).parent if model is not None else cache.models_dir() / name.replace("/", "--")
    return [folder] if folder.is_dir() and any(path.name != ".lock" for path in folder.iterdir()) else []


def remove(name: str, folders: list[Path]) -> None:
    """Delete them. Raises `ModelError` where a server has the model open, `DownloadError` where a download
    is going on or the disk refuses."""
    for info in runtime.running():
        if info.serves(name) or any(info.serves(str(f)) for folder in folders for f in folder.glob("*.gguf")):
            raise ModelError(f"a server of {name} is running (pid {info.pid}): stop it first")
    from filelock import FileLock, Timeout

    for folder in folders:
        if folder.is_symlink():  # what it leads to is somebody's own
            folder.unlink()
            continue
        try:
            with FileLock(folder / ".lock", timeout=0):
                for path in folder.iterdir():
                    if path.name != ".lock":
                        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            shutil.rmtree(folder)
        except Timeout:
            raise DownloadError(f"{name} is being downloaded by another process") from None
        except OSError as error:
            raise DownloadError(f"{folder} cannot be removed: {error.strerror or error}") from None


def hub_strategy(repo: str) -> Any:
    """How the hub's own cache would forget a model: files that other revisions share stay. None where it is
    not there."""
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cached = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return None
    found = [r for r in cached.repos if r.repo_id == repo and r.repo_type == "model"]
    revisions = [revision.commit_hash for r in found for revision in r.revisions]
    return cached.delete_revisions(*revisions) if revisions else None


def licence(model: Model | None, path: Path) -> str | None:
    """Of a model: the registry's word, else that of the card beside the weights."""
    from ..convert.card import licence_of

    if model is not None:
        return model.licence
    return licence_of(path) if path.is_dir() else None
