"""Text to token ids and back."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import tokenizers

from ..weights.gguf import GGUFFile
from . import from_directory, from_gguf
from .incremental import IncrementalDecoder
from .vocabulary import Vocabulary


class Tokenizer:
    """Built by `from_gguf` or `from_directory`. Thread-safe."""

    def __init__(self, backend: tokenizers.Tokenizer, vocabulary: Vocabulary) -> None:
        self._backend, self._vocabulary = backend, vocabulary
        self._lock = threading.Lock()
        names = sorted(vocabulary.control, key=len, reverse=True)
        self.control = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        """Matches the names of control tokens, the longest first."""

    @classmethod
    def from_gguf(cls, file: GGUFFile) -> Tokenizer:
        """From a file's metadata. Raises `UnsupportedModel` or `ModelFileError`."""
        return cls(*from_gguf.load(file))

    @classmethod
    def from_directory(cls, path: str | Path) -> Tokenizer:
        """From ``tokenizer.json`` and its configuration. Raises `UnsupportedModel` or `ModelFileError`."""
        return cls(*from_directory.load(Path(path)))

    @property
    def vocab_size(self) -> int:
        """Tokens in the vocabulary; a model's logits may have more, which stand for nothing."""
        return len(self._vocabulary.pieces)

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text, if the model has one."""
        return self._vocabulary.bos_id

    @property
    def add_bos(self) -> bool:
        """Whether the model wants every text to begin with `bos_id`."""
        return self._vocabulary.add_bos

    @property
    def eog_ids(self) -> frozenset[int]:
        """Tokens that end generation."""
        return self._vocabulary.eog_ids

    def encode(self, text: str, *, special: bool = False, bos: bool | None = None) -> list[int]:
        """Token ids of a text.

        special: parse control tokens such as ``<|im_end|>``. Leave it off for anything a user wrote.
        bos: begin with `bos_id`; None does as the model wants. A BOS that is already there is not doubled.
        """
        return self._with_bos(self._ids(text, special), self.add_bos if bos is None else bos)

    def encode_guarded(self, text: str, guard: str) -> list[int]:
        """Token ids of a rendered chat: control tokens are parsed, then ``guard`` characters drop out.

        A guard inside a control token's name in a message thus keeps it ordinary text.
        """
        ids: list[int] = []
        at = 0
        for found in self.control.finditer(text):
            ids += self._ids(text[at : found.start()].replace(guard, ""), special=False)
            ids.append(self._vocabulary.control[found[0]])
            at = found.end()
        ids += self._ids(text[at:].replace(guard, ""), special=False)
        return self._with_bos(ids, self.add_bos)

    def _ids(self, text: str, special: bool) -> list[int]:
        with self._lock:  # the switch is state of the backend
            self._backend.encode_special_tokens = not special
            return list(self._backend.encode(_scalar(text), add_special_tokens=False).ids)

    def _with_bos(self, ids: list[int], bos: bool) -> list[int]:
        if bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids; what is no UTF-8 becomes U+FFFD. skip_special: leave out control tokens."""
        decoder = IncrementalDecoder(self._vocabulary, skip_special=skip_special)
        return "".join([decoder.push(id) for id in ids]) + decoder.flush()

    def piece(self, id: int) -> bytes:
        """The raw bytes of one token, perhaps a part of a character; of a control token, its name."""
        return self._vocabulary.pieces[id] if 0 <= id < self.vocab_size else b""

    @property
    def control_ids(self) -> Mapping[str, int]:
        """The control tokens by name."""
        return self._vocabulary.control

    def decoder(self, shown: Mapping[int, str] | None = None) -> IncrementalDecoder:
        """A new decoder for one stream of tokens. ``shown``: what tokens stand for that are else hidden."""
        return IncrementalDecoder(self._vocabulary, shown=shown)


def _scalar(text: str) -> str:
    """Without lone surrogates, which no tokenizer takes: JSON can carry them, UTF-8 cannot."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
