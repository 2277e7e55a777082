"""A tokenizer from the files that lie beside safetensors: `tokenizer.json` and its configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from ..errors import ModelFileError, UnsupportedModel
from ..weights.json_file import read_object
from .vocabulary import Prefix, Vocabulary, byte_level_piece, end_ids, sentencepiece_piece


def load(path: Path) -> tuple[Tokenizer, Vocabulary]:
    """Raises `ModelFileError` for missing or broken files, `UnsupportedModel` for other kinds."""
    spec = read_json(path / "tokenizer.json")
    config = read_json(path / "tokenizer_config.json", {})
    generation = read_json(path / "generation_config.json", {})
    try:
        tokenizer = Tokenizer.from_str(json.dumps(spec))
    except Exception as error:  # the tokenizers library raises bare Exception
        raise ModelFileError(path / "tokenizer.json", f"is no tokenizer: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, _vocabulary(path, tokenizer, spec, config, generation)


def read_json(path: Path, default: Any = None) -> dict[str, Any]:
    """A JSON object from a file; ``default`` if there is no such file. Raises `ModelFileError`."""
    return read_object(path) if default is None or path.exists() else dict(default)


def special_text(config: dict[str, Any], name: str) -> str | None:
    """``bos_token`` and the like: a string, or an object with ``content``."""
    value = config.get(f"{name}_token")
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else None


def _vocabulary(
    path: Path, tokenizer: Tokenizer, spec: dict[str, Any], config: dict[str, Any], generation: dict[str, Any]
) -> Vocabulary:
    decoder = _parts(spec.get("decoder"), "decoders")
    if "ByteLevel" in decoder:
        to_bytes = byte_level_piece
    elif "ByteFallback" in decoder or "Metaspace" in decoder:
        to_bytes = sentencepiece_piece
    else:
        kind = ", ".join(decoder) or "none"
        raise UnsupportedModel(f"{path}: decoder {kind} is not supported; byte-level and SentencePiece are")
    added = tokenizer.get_added_tokens_decoder()
    ids = tokenizer.get_vocab(with_added_tokens=True)
    pieces = [b""] * (max(ids.values(), default=-1) + 1)
    for text, id in ids.items():
        pieces[id] = text.encode() if id in added else to_bytes(text)
    bos_text, eos_text = special_text(config, "bos"), special_text(config, "eos")
    bos = ids.get(bos_text) if bos_text else None
    listed = generation.get("eos_token_id")
    declared = [ids[eos_text]] if eos_text in ids else []
    for end in listed if isinstance(listed, list) else [listed]:
        if isinstance(end, int) and 0 <= end < len(pieces):
            declared.append(end)
    eog = end_ids({token.content: id for id, token in added.items()}, declared)
    return Vocabulary(
        pieces=tuple(pieces),
        hidden=frozenset(id for id, token in added.items() if token.special),
        control={token.content: id for id, token in added.items() if token.special},
        bos_id=bos,
        add_bos=_adds_bos(tokenizer, config, bos),
        eog_ids=frozenset(eog),
        prefix=_prefix(spec),
    )


def _adds_bos(tokenizer: Tokenizer, config: dict[str, Any], bos: int | None) -> bool:
    """As the configuration says; where it does not, as the tokenizer's own post-processor does."""
    said = config.get("add_bos_token")
    if isinstance(said, bool):
        return said
    return bos is not None and tokenizer.encode("a", add_special_tokens=True).ids[:1] == [bos]


def _prefix(spec: dict[str, Any]) -> Prefix:
    if "Prepend" in _parts(spec.get("normalizer"), "normalizers"):
        return Prefix.ALWAYS
    metaspace = _parts(spec.get("pre_tokenizer"), "pretokenizers").get("Metaspace")
    if metaspace and metaspace.get("prepend_scheme", "always") != "never":
        return Prefix.UNLESS_SPACE
    return Prefix.NONE


def _parts(node: Any, children: str) -> dict[str, dict[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or decoder by type, whether or not they form a sequence."""
    if not isinstance(node, dict):
        return {}
    steps = node.get(children) if node.get("type") == "Sequence" else [node]
    return {step["type"]: step for step in steps or [] if isinstance(step, dict) and "type" in step}
