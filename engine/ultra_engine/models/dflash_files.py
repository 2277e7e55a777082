"""What lies beside the weights of a DFlash drafter: the embedding of its mask, the tokens that it drafts."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..errors import ModelFileError
from ..weights.index import DRAFT_VOCABULARY
from ..weights.mask_embedding import read_mask_embedding
from ..weights.shard import Shard
from .dflash import DrafterConfig

MASK = "mask_embedding.pt"


def mask_embedding(folder: Path, config: DrafterConfig) -> Tensor | None:
    """The embedding of the mask token, float32 [hidden], where the folder has one: it stands in for the
    target's row, for drafting alone.

    Raises as `read_mask_embedding` does, and `ModelFileError` for another token than the config's.
    """
    path = folder / MASK
    if not path.exists():
        return None
    found = read_mask_embedding(path, config.hidden)
    if found.token not in (None, config.mask_token):
        raise ModelFileError(path, f"is of token {found.token}, the config's mask is {config.mask_token}")
    return found.embedding


def draft_vocabulary(folder: Path, config: DrafterConfig) -> Tensor | None:
    """The tokens that may be drafted, int64, ascending: ``d2t`` of the file, where the folder has one. The
    head needs these rows alone.

    Raises `ModelFileError` for any fault in it.
    """
    path = folder / DRAFT_VOCABULARY
    if not path.exists():
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
