"""Files of a repository on the Hugging Face hub."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from ..errors import DownloadError, UnknownModel, UnsupportedModel

LISTING_SECONDS = 10
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_PREFERRED = "q4_k_m"


@dataclass(frozen=True, slots=True)
class HubFile:
    """name: the path in the repository. sha256: None for files that the hub keeps no sum of."""

    name: str
    size: int | None
    sha256: str | None


def url(repo: str, file: str) -> str:
    """Where a file is, at ``HF_ENDPOINT`` if that is set. Raises `DownloadError` if ``HF_HUB_OFFLINE`` is."""
    from huggingface_hub import constants, hf_hub_url

    if constants.HF_HUB_OFFLINE:
        raise DownloadError("hub: HF_HUB_OFFLINE is set")
    return str(hf_hub_url(repo, file, endpoint=os.environ.get("HF_ENDPOINT")))


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
        HubFile(item.rfilename, item.size, item.lfs.sha256 if item.lfs else None)
        for item in info.siblings or []
    ]


def choose(repo: str, files: list[HubFile], wanted: str | None) -> HubFile:
    """The GGUF file to use: the one named, or the only one, or the one in Q4_K_M.

    ``wanted`` is a file name or a part of it, such as ``q8_0``. Raises `UnsupportedModel` or `UnknownModel`.
    """
    found = [file for file in files if file.name.lower().endswith(".gguf") and not _SHARD.search(file.name)]
    if not found:
        kind = (
            "its weights are safetensors"
            if any(f.name.endswith(".safetensors") for f in files)
            else "it has none"
        )
        raise UnsupportedModel(
            f"{repo}: only single-file GGUF models run for now, and {kind}; try {repo}-GGUF"
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
