"""Adapter for the public round-trip trial: encode, decode and stream through the product's tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ultra_engine.tokens.tokenizer import Tokenizer


class Trial:
    def __init__(self, directory: str) -> None:
        self._tokenizer = Tokenizer.from_directory(directory)

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, bos=False)

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)

    def stream(self, ids: Sequence[int]) -> Iterator[str]:
        decoder = self._tokenizer.decoder()
        for id in ids:
            yield decoder.push(id)
        yield decoder.flush()


open_tok = Trial
