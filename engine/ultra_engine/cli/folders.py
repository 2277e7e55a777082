"""From what a person calls a checkpoint to its folder."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import DownloadError, ModelFileError, UnknownModel
from ..weights import cache

_REPO = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")


def folder_of(name: str) -> Path:
    """A folder with a config.json: a path, or ``org/name`` in our cache or the hub's. Touches no network.

    Raises `ModelFileError`, `UnknownModel` or `DownloadError`.
    """
    local = Path(name).expanduser()
    if local.is_dir():
        if not (local / "config.json").is_file():
            raise ModelFileError(local, "there is no config.json: give the folder of a safetensors model")
        return local
    if local.exists():
        raise ModelFileError(local, "is a file: give the folder of a safetensors model")
    if not is_repo(name):
        raise UnknownModel(f"no model {name!r}: give the folder of a safetensors model, or org/name")
    found = cached(name)
    if found is None:
        raise DownloadError(f"{name} is neither a folder nor in the cache: ultra models pull {name}")
    return found


def is_repo(name: str) -> bool:
    """Whether it reads as ``org/name``."""
    return _REPO.fullmatch(name) is not None and ".." not in name


def cached(repo: str) -> Path | None:
    """The folder of ``org/name`` in our cache, or else in the hub's own."""
    ours = cache.models_dir() / repo.replace("/", "--")
    if (ours / "config.json").is_file():
        return ours
    from huggingface_hub import constants, try_to_load_from_cache

    found = try_to_load_from_cache(repo, "config.json", cache_dir=constants.HF_HUB_CACHE)
    return Path(found).parent if isinstance(found, str) else None
