"""Files of a repository on the Hugging Face hub."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import DownloadError, UnknownModel, UnsupportedModel

LISTING_SECONDS = 10
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_PREFERRED = "q4_k_m"


@dataclass(frozen=True, slots=True)
class HubFile:
    """name: the path in the repository. sha256: None for files that the hub keeps no sum of. revision: the
    commit that was listed, so that files fetched one after the other are of one."""

    name: str
    size: int | None
    sha256: str | None
    revision: str | None = None


def url(repo: str, file: str, revision: str | None = None) -> str:
    """Where a file is, at ``HF_ENDPOINT`` if that is set. Raises `DownloadError` if ``HF_HUB_OFFLINE`` is."""
    from huggingface_hub import constants, hf_hub_url

    if constants.HF_HUB_OFFLINE:
        raise DownloadError("hub: HF_HUB_OFFLINE is set")
    return str(hf_hub_url(repo, file, revision=revision, endpoint=os.environ.get("HF_ENDPOINT")))


def in_hub_cache(repo: str) -> Path | None:
    """The folder that the hub's own tools downloaded a checkpoint to, or a part of one."""
    from huggingface_hub import constants, try_to_load_from_cache

    found = try_to_load_from_cache(repo, "config.json", cache_dir=constants.HF_HUB_CACHE)
    return Path(found).parent if isinstance(found, str) else None


def headers() -> dict[str, str]:
    """The user's token (``HF_TOKEN``, or what ``hf auth login`` stored), if there is one."""
    from huggingface_hub import get_token

    token = get_token()
    return {"Authorization": f"Bearer {token}"} if token else {}


def listing(repo: str) -> list[HubFile]:
    """Every file of a repository. Raises `UnknownModel` or `DownloadError`."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
    )

    try:
        api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
        info = api.model_info(repo, files_metadata=True, timeout=LISTING_SECONDS)
    except GatedRepoError:
        raise DownloadError(f"{repo} is gated: accept its licence on the hub and set HF_TOKEN") from None
    except (RepositoryNotFoundError, HFValidationError):
        raise UnknownModel(f"the hub has no model {repo} (or it is private: then set HF_TOKEN)") from None
    # The library's HTTP client was requests, httpx and httpx2 within a year: its errors cannot be named.
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DownloadError(f"cannot look up {repo}: hub: {reason}") from None
    return [
        HubFile(item.rfilename, item.size, item.lfs.sha256 if item.lfs else None, info.sha)
        for item in info.siblings or []
    ]


def has_gguf(files: list[HubFile]) -> bool:
    """Whether there is a model in a single GGUF file."""
    return bool(_ggufs(files))


def _ggufs(files: list[HubFile]) -> list[HubFile]:
    return [file for file in files if file.name.lower().endswith(".gguf") and not _SHARD.search(file.name)]


def choose(repo: str, files: list[HubFile], wanted: str | None) -> HubFile:
    """The GGUF file to use: the one named, or the only one, or the one in Q4_K_M.

    ``wanted`` is a file name or a part of it, such as ``q8_0``. Raises `UnsupportedModel` or `UnknownModel`.
    """
    found = _ggufs(files)
    if not found:
        raise UnsupportedModel(
            f"{repo} has neither a config.json with safetensors nor a GGUF model in one file: weights in any "
            f"other form are not loaded; try {repo}-GGUF"
        )
    names = ", ".join(file.name for file in found)
    if wanted is not None:
        exact = [file for file in found if wanted in (file.name, file.name.rsplit("/")[-1])]
        found = exact or [file for file in found if wanted.lower() in file.name.lower()]
        if not found:
            raise UnknownModel(f"{repo} has no file {wanted!r}; it has {names}")
    if len(found) > 1:
        found = [file for file in found if _PREFERRED in file.name.lower()]
    if len(found) != 1:
        raise UnknownModel(f"{repo} has several files; name one as {repo}:FILE out of {names}")
    return found[0]
