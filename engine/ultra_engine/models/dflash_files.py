"""What lies beside the weights of a DFlash drafter: the embedding of its mask, the tokens that it drafts."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor

from ..errors import ModelFileError, UnsupportedModel
from ..weights.shard import Shard
from .dflash import DrafterConfig

MASK, VOCABULARY = "mask_embedding.pt", "draft_vocab.safetensors"

MAX_BYTES = 1 << 26


def mask_embedding(folder: Path, config: DrafterConfig) -> Tensor | None:
    """The embedding of the mask token, float32 [hidden], where the folder has one: it stands in for the
    target's row, for drafting alone. PyTorch's unpickler of tensors reads it, which runs no code of a file's.

    Raises `ModelFileError` for any fault in it, `UnsupportedModel` for one embedding for each position.
    """
    path = folder / MASK
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_BYTES:
        raise ModelFileError(path, f"no mask embedding: more than {MAX_BYTES} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles of other protocols
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file may make the unpickler raise anything
        raise ModelFileError(path, f"no mask embedding: {_line(error)}") from None
    if not isinstance(found, dict) or not isinstance(found.get("embedding"), Tensor):
        raise ModelFileError(path, "there is no tensor embedding in it")
    if found.get("per_position") is not None:
        raise UnsupportedModel(f"{path}: an embedding for each position; supported: one for all")
    embedding: Tensor = found["embedding"]
    token = found.get("mask_token_id", config.mask_token)
    if token != config.mask_token:
        raise ModelFileError(path, f"it is of token {token!r}, the config's mask is {config.mask_token}")
    if not embedding.is_floating_point() or embedding.shape != (config.hidden,):
        raise ModelFileError(path, f"embedding is {list(embedding.shape)}, not [{config.hidden}]")
    return embedding.float()


def draft_vocabulary(folder: Path, config: DrafterConfig) -> Tensor | None:
    """The tokens that may be drafted, int64, ascending: ``d2t`` of the file, where the folder has one. The
    head needs these rows alone.

    Raises `ModelFileError` for any fault in it.
    """
    path = folder / VOCABULARY
    if not path.is_file():
        return None
    shard = Shard(path)
    try:
        entry = shard.tensors.get("d2t")
        dtypes = {"I32": torch.int32, "I64": torch.int64}
        if entry is None or entry.dtype not in dtypes or len(entry.shape) != 1 or not entry.shape[0]:
            raise ModelFileError(path, "there is no tensor d2t of whole numbers in it")
        data = bytearray(shard.data("d2t", 0, entry.nbytes).tobytes())
        tokens = torch.frombuffer(data, dtype=dtypes[entry.dtype]).long()
    finally:
        shard.close()
    if int(tokens[0]) < 0 or int(tokens[-1]) >= config.vocab or bool((tokens.diff() <= 0).any()):
        raise ModelFileError(path, f"d2t is no ascending list of tokens below {config.vocab}")
    return tokens


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__
