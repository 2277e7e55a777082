"""Incremental decoding against decoding the whole."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_engine.tokens.incremental import IncrementalDecoder
from ultra_engine.tokens.vocabulary import Prefix, Vocabulary


def vocabulary(
    pieces: list[bytes], hidden: set[int] | None = None, prefix: Prefix = Prefix.NONE
) -> Vocabulary:
    return Vocabulary(tuple(pieces), frozenset(hidden or ()), {}, None, False, frozenset(), prefix)


BYTES = vocabulary([bytes([byte]) for byte in range(256)])


@given(st.lists(st.binary(max_size=5), max_size=30))
def test_any_bytes_at_any_cuts(pieces: list[bytes]) -> None:
    decoder = IncrementalDecoder(vocabulary(pieces))
    text = "".join(decoder.push(id) for id in range(len(pieces))) + decoder.flush()
    assert text == b"".join(pieces).decode("utf-8", "replace")


@given(st.text(max_size=40))
def test_no_replacement_character_for_a_character_in_pieces(text: str) -> None:
    decoder, shown = IncrementalDecoder(BYTES), ""
    for at, byte in enumerate(text.encode()):
        shown += decoder.push(byte)
        whole = text.encode()[: at + 1]
        # Everything complete is out at once, and nothing else.
        assert shown == whole.decode("utf-8", "ignore")
    assert shown + decoder.flush() == text


def test_a_cut_character_is_replaced_at_the_end_and_the_decoder_starts_anew() -> None:
    decoder = IncrementalDecoder(BYTES)
    assert [decoder.push(byte) for byte in "\U0001f999".encode()[:3]] == ["", "", ""]
    assert decoder.flush() == "\ufffd"
    assert decoder.push(ord("a")) == "a" and decoder.flush() == ""


def test_invalid_bytes_do_not_swallow_what_follows() -> None:
    decoder = IncrementalDecoder(BYTES)
    assert [decoder.push(byte) for byte in b"\xf0\x9fab"] == ["", "", "\ufffda", "b"]


@pytest.mark.parametrize(
    ("prefix", "pieces", "text"),
    [
        (Prefix.ALWAYS, [b" hello", b" you"], "hello you"),
        (Prefix.ALWAYS, [b" ", b" x"], " x"),
        (Prefix.ALWAYS, [b"x", b" y"], "x y"),
        (Prefix.ALWAYS, [b"", b"\xe6\x97", b"\xa5", b" y"], "\u65e5 y"),
        (Prefix.ALWAYS, [b" "], ""),
        (Prefix.UNLESS_SPACE, [b" hello", b" you"], "hello you"),
        (Prefix.UNLESS_SPACE, [b" ", b" x"], "  x"),
        (Prefix.UNLESS_SPACE, [b" ", b"x"], "x"),
        (Prefix.UNLESS_SPACE, [b"   "], "   "),
        (Prefix.UNLESS_SPACE, [b" "], ""),
        (Prefix.UNLESS_SPACE, [b" ", b"\xff"], "\ufffd"),
        (Prefix.UNLESS_SPACE, [b" ", b"\xf0\x9f"], "\ufffd"),
        (Prefix.NONE, [b" hello"], " hello"),
    ],
)
def test_the_added_space(prefix: Prefix, pieces: list[bytes], text: str) -> None:
    decoder = IncrementalDecoder(vocabulary(pieces, prefix=prefix))
    assert "".join(decoder.push(id) for id in range(len(pieces))) + decoder.flush() == text


def test_hidden_tokens_give_no_text_and_do_not_break_characters() -> None:
    words = vocabulary([b"\xe6\x97", b"<|x|>", b"\xa5"], hidden={1})
    decoder = IncrementalDecoder(words)
    assert [decoder.push(id) for id in (0, 1, 2, 3, -1)] == ["", "", "\u65e5", "", ""]
    assert IncrementalDecoder(words, skip_special=False).push(1) == "<|x|>"


def test_cost_does_not_depend_on_history() -> None:
    decoder = IncrementalDecoder(BYTES)

    def seconds() -> float:
        start = time.perf_counter()
        for _ in range(20_000):
            decoder.push(97)
        return time.perf_counter() - start

    first = seconds()
    for _ in range(15):
        last = seconds()
    assert last < 10 * first
