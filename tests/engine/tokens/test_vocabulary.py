"""Tokens to bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.tokens.vocabulary import BYTE_OF, byte_level_piece, byte_value, end_ids, sentencepiece_piece


@given(st.binary(max_size=20))
def test_the_byte_alphabet_covers_every_byte(raw: bytes) -> None:
    char_of = {byte: char for char, byte in BYTE_OF.items()}
    assert len(char_of) == 256
    assert byte_level_piece("".join(char_of[byte] for byte in raw)) == raw


@pytest.mark.parametrize(
    ("token", "piece"),
    [
        ("\u0120hi", b" hi"),
        ("\u010a", b"\n"),
        (" ", b" "),
        ("\xa0", b"\xc2\xa0"),
        ("\u65e5", "\u65e5".encode()),
    ],
)
def test_byte_level(token: str, piece: bytes) -> None:
    assert byte_level_piece(token) == piece


@pytest.mark.parametrize(
    ("token", "value"),
    [("<0x0A>", 10), ("<0xff>", 255), ("<0xGG>", None), ("<0x0A", None), ("<0x00A>", None), ("a", None)],
)
def test_byte_tokens(token: str, value: int | None) -> None:
    assert byte_value(token) == value


def test_sentencepiece() -> None:
    assert sentencepiece_piece("\u2581a\u2581") == b" a " and sentencepiece_piece("<0xE6>") == b"\xe6"


def test_ends() -> None:
    assert end_ids({"<|im_end|>": 1, "x": 2, "</s>": 3}) == {1, 3}
    harmony = {"<|return|>": 1, "<|call|>": 2, "<|end|>": 3}
    assert end_ids(harmony) == {1, 2} and end_ids({"<|end|>": 3}) == {3}
    assert end_ids(harmony, [3, 9]) == {1, 2, 9}, "files declare the end of a message as one of a turn"
