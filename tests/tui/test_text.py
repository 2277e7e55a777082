from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style
from ultra_tui.text import break_spans, clean, fold, line_width, wrap

STYLE = Style()
MIXED = st.text(st.sampled_from("ab  漢字한é👩‍🔧🇩🇪.,-\n"), max_size=80)


@pytest.mark.parametrize(
    ("raw", "safe"),
    [
        ("a\x1b[31mb\x07", "a[31mb"),
        ("\x1b]0;title\x07x", "]0;titlex"),
        ("\x9b31mred\x85", "31mred"),
        ("user\u202egpj.exe", "usergpj.exe"),
        ("\u2066a\u2069\u200f", "a"),
        ("tab\there\nline\r\n", "tab\there\nline\n"),
        ("\ud800", "\ufffd"),
        ("[bold]not markup[/]", "[bold]not markup[/]"),
        ("👩\u200d🔧", "👩\u200d🔧"),
    ],
)
def test_clean(raw: str, safe: str) -> None:
    assert clean(raw) == safe


@given(st.text(max_size=50), st.integers(0, 50))
def test_cleaning_pieces_is_cleaning_the_whole(text: str, cut: int) -> None:
    assert clean(text[:cut]) + clean(text[cut:]) == clean(text)


@given(MIXED, st.integers(4, 30))
def test_no_row_is_wider_than_the_screen(text: str, width: int) -> None:
    lines = wrap([(text[:9], STYLE), (text[9:], Style(bold=True))], width)
    assert all(line_width(line) <= width for line in lines)


@given(MIXED, st.integers(4, 30))
def test_wrapping_loses_nothing_but_spaces(text: str, width: int) -> None:
    spans = break_spans(text, width)
    rows = "".join(text[start:end] for start, end in spans)
    assert rows.replace(" ", "") == text.replace(" ", "").replace("\n", "")
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


def test_wrapping_breaks_between_words_and_keeps_line_feeds() -> None:
    text = "one two three\n  four"
    assert [text[a:b] for a, b in break_spans(text, 8)] == ["one two", "three", "  four"]


def test_a_long_word_is_cut() -> None:
    text = "see https://example.org/a/very/long/path now"
    assert [text[a:b] for a, b in break_spans(text, 12)] == [
        "see",
        "https://exam",
        "ple.org/a/ve",
        "ry/long/path",
        "now",
    ]


def test_wide_characters_break_anywhere_but_before_a_closing_mark() -> None:
    text = "漢字漢字。字"
    assert [text[a:b] for a, b in break_spans(text, 8)] == ["漢字漢", "字。字"]


@given(st.text(st.sampled_from("ab  漢é"), max_size=60), st.integers(2, 20))
def test_folding_code_keeps_every_character(text: str, width: int) -> None:
    lines = fold([(text[:7], STYLE), (text[7:], STYLE)], width)
    assert "".join(piece for line in lines for piece, _ in line) == text
    assert all(line_width(line) <= width for line in lines)
    assert cell_len(text) <= sum(line_width(line) for line in lines)
