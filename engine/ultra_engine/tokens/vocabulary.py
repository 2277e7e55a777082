"""What each token id stands for: bytes, whether it is shown, what ends a text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

SPACE = "\u2581"
"""Stands for a space in SentencePiece vocabularies."""

END_TOKENS = frozenset(
    {
        "<|im_end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<end_of_turn>",
        "<end_of_utterance>",
        "</s>",
        "<eos>",
        "<EOT>",
        "[EOS]",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "<|fim_pad|>",
        "<|repo_name|>",
        "<|file_sep|>",
        "<reponame>",
    }
)
"""Tokens that end generation wherever a vocabulary has them: files often declare only one of several.

The last four begin another file when code is filled in."""


class Prefix(Enum):
    """The space that a tokenizer puts before a text, and that decoding takes away again."""

    NONE = "none"
    ALWAYS = "always"
    UNLESS_SPACE = "unless it begins with one"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """pieces: the raw bytes of every id. hidden: ids that give no text (control, unknown, unused tokens).
    control: the names of the tokens that only ``special=True`` parses."""

    pieces: tuple[bytes, ...]
    hidden: frozenset[int]
    control: Mapping[str, int]
    bos_id: int | None
    add_bos: bool
    eog_ids: frozenset[int]
    prefix: Prefix = Prefix.NONE


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins: printable Latin-1 bytes are themselves, the rest follows from U+0100."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(rest)}


BYTE_OF = _byte_alphabet()
_TO_LATIN1 = {code: "\uffff" for code in range(256)} | {
    ord(char): chr(byte) for char, byte in BYTE_OF.items()
}


def byte_level_piece(token: str) -> bytes:
    """The bytes of a byte-level BPE token; of one that is not written in the alphabet, its UTF-8."""
    try:
        return token.translate(_TO_LATIN1).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def sentencepiece_piece(token: str) -> bytes:
    """The bytes of a SentencePiece token: ``<0x0A>`` is one byte, U+2581 a space."""
    value = byte_value(token)
    return token.replace(SPACE, " ").encode() if value is None else bytes([value])


def byte_value(token: str) -> int | None:
    """10 for ``<0x0A>``, None for any token that is not written like that."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return int(token[3:5], 16)
        except ValueError:
            return None
    return None


def end_ids(ids: Mapping[str, int], declared: Iterable[int] = ()) -> set[int]:
    """Ids of the tokens that end generation, by their text or because a model's files say so."""
    found = {ids[text] for text in END_TOKENS if text in ids} | set(declared)
    if "<|return|>" in ids and "<|call|>" in ids:  # harmony, where it ends only a message
        found.discard(ids.get("<|end|>", -1))
    return found
