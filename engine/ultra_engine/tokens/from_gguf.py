"""A tokenizer from the metadata of a GGUF file, with the ids that llama.cpp gives."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tokenizers import AddedToken, Tokenizer, models, normalizers

from ..errors import ModelFileError, UnsupportedModel
from ..weights.gguf import GGUFFile
from . import pretokenizers
from .vocabulary import (
    END_TOKENS,
    SPACE,
    Prefix,
    Vocabulary,
    byte_level_piece,
    byte_value,
    end_ids,
    sentencepiece_piece,
)

KINDS = ("gpt2", "llama")


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_HIDDEN = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.UNUSED)
_PARSED_IF_SPECIAL = (TokenType.UNKNOWN, TokenType.CONTROL)


def load(file: GGUFFile) -> tuple[Tokenizer, Vocabulary]:
    """Raises `UnsupportedModel` for other kinds of tokenizers, `ModelFileError` for bad metadata."""
    kind = file.field("tokenizer.ggml.model", str)
    if kind not in KINDS:
        raise UnsupportedModel(f"{file.path}: tokenizer {kind!r} is not supported; {', '.join(KINDS)} are")
    tokens = _list(file, "tokens", str)
    types = _types(file, tokens)
    try:
        tokenizer = _byte_level(file, tokens) if kind == "gpt2" else _sentencepiece(file, tokens, types)
        _add_special(tokenizer, tokens, types)
    except Exception as error:
        if isinstance(error, (ModelFileError, UnsupportedModel)):
            raise
        # The tokenizers library raises bare Exception for inconsistent vocabularies.
        raise ModelFileError(file.path, f"its tokenizer is inconsistent: {error}") from error
    return tokenizer, _vocabulary(file, kind, tokens, types)


def _list(file: GGUFFile, key: str, item: type, default: Any = ...) -> list[Any]:
    """A metadata list in which every item has the type asked for."""
    key = f"tokenizer.ggml.{key}"
    found = file.field(key, list) if default is ... else file.field(key, list, default)
    if any(type(value) is not item for value in found):
        raise ModelFileError(file.path, f"metadata {key} is not a list of {item.__name__}")
    return found


def _types(file: GGUFFile, tokens: list[str]) -> list[int]:
    types = _list(file, "token_type", int, [int(TokenType.NORMAL)] * len(tokens))
    if len(types) != len(tokens):
        raise ModelFileError(file.path, f"{len(types)} token types for {len(tokens)} tokens")
    # Converters sometimes leave <|im_end|> as ordinary text; a user could then end a turn by typing it.
    # But an ordinary </s> is HTML: Qwen's vocabulary has that word.
    pairs = zip(tokens, types, strict=True)
    return [
        TokenType.CONTROL if text.startswith("<|") and text in END_TOKENS else kind for text, kind in pairs
    ]


def _byte_level(file: GGUFFile, tokens: list[str]) -> Tokenizer:
    pre = file.field("tokenizer.ggml.pre", str, "default")
    if pre not in pretokenizers.PATTERNS:
        known = ", ".join(pretokenizers.PATTERNS)
        raise UnsupportedModel(f"{file.path}: pre-tokenizer {pre!r} is not supported; these are: {known}")
    merges = []
    for merge in _list(file, "merges", str):
        cut = merge.find(" ", 1)
        if cut < 0:
            raise ModelFileError(file.path, f"metadata tokenizer.ggml.merges has a bad entry {merge[:40]!r}")
        merges.append((merge[:cut], merge[cut + 1 :]))
    vocab = {text: id for id, text in enumerate(tokens)}
    whole = pre in pretokenizers.WHOLE_WORDS_FIRST
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=whole))
    tokenizer.pre_tokenizer = pretokenizers.byte_level(pre)
    return tokenizer


def _sentencepiece(file: GGUFFile, tokens: list[str], types: list[int]) -> Tokenizer:
    scores = _list(file, "scores", float)
    if len(scores) != len(tokens):
        raise ModelFileError(file.path, f"{len(scores)} scores for {len(tokens)} tokens")
    vocab = {text: id for id, text in enumerate(tokens)}
    plain = {text: scores[id] for text, id in vocab.items() if types[id] == TokenType.NORMAL}
    unknown = tokens[types.index(TokenType.UNKNOWN)] if TokenType.UNKNOWN in types else None
    merges = _merges(plain)
    tokenizer = Tokenizer(
        models.BPE(vocab=vocab, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    steps: list[Any] = [normalizers.Replace(" ", SPACE)]
    if _space_prefix(file):
        steps.insert(0, normalizers.Prepend(SPACE))
    tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer


def _merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Every pair whose join is a token, best score first: the order in which SentencePiece joins symbols."""
    found = []
    for order, (text, score) in enumerate(scores.items()):
        for cut in range(1, len(text)):
            left, right = text[:cut], text[cut:]
            if left in scores and right in scores:
                found.append((-score, order, left, right))
    found.sort(key=lambda merge: merge[:2])
    return [(left, right) for _, _, left, right in found]


def _add_special(tokenizer: Tokenizer, tokens: list[str], types: list[int]) -> None:
    added = []
    for text, kind in zip(tokens, types, strict=True):
        if text and (kind in _PARSED_IF_SPECIAL or kind == TokenType.USER_DEFINED):
            added.append(AddedToken(text, normalized=False, special=kind in _PARSED_IF_SPECIAL))
    tokenizer.add_tokens(added)


def _space_prefix(file: GGUFFile) -> bool:
    return file.field("tokenizer.ggml.add_space_prefix", bool, True)


def _vocabulary(file: GGUFFile, kind: str, tokens: list[str], types: list[int]) -> Vocabulary:
    spm = kind == "llama"
    pieces = []
    for text, type in zip(tokens, types, strict=True):
        if type in (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN):
            pieces.append(text.encode())
        elif not spm:
            pieces.append(byte_level_piece(text))
        elif type == TokenType.BYTE or byte_value(text) is None:
            pieces.append(sentencepiece_piece(text))
        else:
            pieces.append(text.encode())
    pre = file.field("tokenizer.ggml.pre", str, "default")
    bos = _id(file, "bos", len(tokens), 1 if spm else None)
    declared = [id for name in ("eos", "eot", "eom") if (id := _id(file, name, len(tokens))) is not None]
    eog = end_ids({text: id for id, text in enumerate(tokens) if types[id] != TokenType.NORMAL}, declared)
    if spm and "tokenizer.ggml.eos_token_id" not in file.metadata and len(tokens) > 2:
        eog.add(2)
    return Vocabulary(
        pieces=tuple(pieces),
        hidden=frozenset(id for id, type in enumerate(types) if type in _HIDDEN),
        control={text: id for id, text in enumerate(tokens) if text and types[id] in _PARSED_IF_SPECIAL},
        bos_id=bos,
        add_bos=file.field("tokenizer.ggml.add_bos_token", bool, spm or pre in pretokenizers.BOS_BY_DEFAULT),
        eog_ids=frozenset(eog),
        prefix=Prefix.ALWAYS if spm and _space_prefix(file) else Prefix.NONE,
    )


def _id(file: GGUFFile, name: str, size: int, default: int | None = None) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    id = file.field(key, int, default)
    if id is not None and not 0 <= id < size:
        raise ModelFileError(file.path, f"metadata {key} is {id}, the vocabulary has {size} tokens")
    return id
