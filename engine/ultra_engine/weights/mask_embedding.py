"""``mask_embedding.pt``: what a drafter sees in place of a token that is not known yet.

A file of ``torch.save``: a zip archive whose pickle makes a dict of ``mask_token_id`` and ``embedding``.
Pickles are programs; this one is read by PyTorch's unpickler for weights, which knows tensors, numbers, text
and containers and calls nothing else. The archive is looked at before, because it may claim any size.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from ..errors import ModelFileError, UnsupportedModel

FILE_LIMIT = 16 << 20
"""Bytes; one row of a vocabulary has some 10 kB."""

MEMBER_LIMIT = 64
"""Files in the archive."""

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, eq=False)
class MaskEmbedding:
    """``embedding``, float32 [hidden], takes the place of row ``token`` of the vocabulary in draft inputs."""

    token: int
    embedding: torch.Tensor


def read_mask_embedding(path: Path, hidden: int) -> MaskEmbedding:
    """Read the file of a drafter whose rows have ``hidden`` numbers.

    Raises `ModelFileError` for what is missing, broken, too large or asks for any code to be run, and
    `UnsupportedModel` for an embedding of each position.
    """
    _check_archive(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a hostile archive makes of PyTorch's reader, it is the file's fault
        reason = " ".join(str(error).split())[:160]
        raise ModelFileError(path, f"is no plain tensor file, and was not run: {reason}") from None
    return _checked(path, found, hidden)


def _check_archive(path: Path) -> None:
    """Sizes, and that nothing in it grows when it is read."""
    try:
        if not path.is_file():
            raise ModelFileError(path, "not a file" if path.exists() else "no such file")
        size = path.stat().st_size
        if size > FILE_LIMIT:
            raise ModelFileError(path, f"has {size} bytes; at most {FILE_LIMIT} are allowed")
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        raise ModelFileError(path, f"is no archive of torch.save: {' '.join(str(error).split())}") from None
    if len(members) > MEMBER_LIMIT:
        raise ModelFileError(
            path, f"is an archive of {len(members)} files; at most {MEMBER_LIMIT} are allowed"
        )
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:
            raise ModelFileError(
                path, f"{member.filename[:60]!r} in it is compressed, or larger than the file"
            )


def _checked(path: Path, found: Any, hidden: int) -> MaskEmbedding:
    def fail(reason: str) -> NoReturn:
        raise ModelFileError(path, reason)

    if not isinstance(found, dict) or "mask_token_id" not in found or "embedding" not in found:
        fail("is not a dict of mask_token_id and embedding")
    token, row = found["mask_token_id"], found["embedding"]
    if isinstance(token, torch.Tensor) and token.numel() == 1 and token.dtype in (torch.int64, torch.int32):
        token = int(token)
    if type(token) is not int or not 0 <= token < 1 << 31:
        fail("mask_token_id is not a token")
    if not isinstance(row, torch.Tensor) or row.dtype not in FLOATS or row.layout is not torch.strided:
        fail(
            f"embedding is not a tensor of {', '.join(str(dtype).removeprefix('torch.') for dtype in FLOATS)}"
        )
    if row.shape != (hidden,):
        fail(f"embedding is {list(row.shape)}, not [{hidden}]")
    if found.get("per_position") not in (None, False):
        raise UnsupportedModel(f"{path}: a mask embedding for each position is not supported")
    embedding = row.detach().float()
    if not bool(embedding.isfinite().all()):
        fail("embedding is not finite")
    return MaskEmbedding(token, embedding.clone())
