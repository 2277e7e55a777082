"""The stop scanner against a plain search of the whole text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ultra_engine.tokens.stops import StopScanner


def naive(text: str, stops: list[str]) -> tuple[str, bool]:
    found = [at for stop in stops if (at := text.find(stop)) >= 0]
    return (text[: min(found)], True) if found else (text, False)


def scan(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    """Stream the pieces, checking after each that nothing of a stop string is out."""
    scanner, out = StopScanner(stops), ""
    for at, piece in enumerate(pieces):
        safe, hit = scanner.push(piece)
        out += safe
        so_far = "".join(pieces[: at + 1])
        whole, _ = naive(so_far, stops)
        assert whole.startswith(out)
        assert not any(so_far.endswith(stop[:n]) and len(out) > len(so_far) - n
                       for stop in stops for n in range(1, len(stop) + 1))  # fmt: skip
        if hit:
            return out, True
    return out + scanner.flush(), scanner.hit


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    letters = draw(st.sampled_from(["ab", "abc", "a\n", "é日🙂"]))
    text = draw(st.text(letters, max_size=60))
    stops = draw(st.lists(st.text(letters, min_size=1, max_size=6), max_size=5))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    edges = [0, *cuts, len(text)]
    return [text[a:b] for a, b in zip(edges, edges[1:], strict=False)], stops


@settings(max_examples=1500, deadline=None)
@given(cut_texts())
def test_equals_a_search_of_the_whole_text(case: tuple[list[str], list[str]]) -> None:
    pieces, stops = case
    assert scan(pieces, stops) == naive("".join(pieces), stops)


@pytest.mark.parametrize(
    ("pieces", "stops", "text", "hit"),
    [
        (["Hello<|im", "_end|>", "x"], ["<|im_end|>"], "Hello", True),
        (["Hello<|im", "_start|>"], ["<|im_end|>"], "Hello<|im_start|>", False),
        (["abc", "X"], ["bcX", "c"], "a", True),
        (["abc", "Y"], ["bcX", "c"], "ab", True),
        (["abc"], ["bcX", "c"], "ab", True),
        (["aa", "aab"], ["aab"], "aa", True),
        (["one\n", "\ntwo"], ["\n\n"], "one", True),
        (["x"], ["x"], "", True),
        (["plain"], [], "plain", False),
        (["", "a", ""], ["b", "b"], "a", False),
    ],
)
def test_examples(pieces: list[str], stops: list[str], text: str, hit: bool) -> None:
    assert scan(pieces, stops) == (text, hit)


def test_safe_text_is_not_held_back() -> None:
    scanner = StopScanner(["STOP"])
    assert scanner.push("so far so good S") == ("so far so good ", False)
    assert scanner.push("o what") == ("So what", False)
    assert scanner.push("ST") == ("", False)
    assert scanner.flush() == "ST"


def test_cost_stays_linear() -> None:
    """A stop that almost matches for ever must not make each push look at everything again."""

    def seconds(count: int) -> float:
        scanner, start = StopScanner(["a" * 500 + "b"]), time.perf_counter()
        for _ in range(count):
            scanner.push("aaaa")
        return time.perf_counter() - start

    assert seconds(20_000) < 40 * max(seconds(2_000), 0.001)
