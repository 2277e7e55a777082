from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.truncate import LIMIT, clean, fold, shorten


@given(st.text("ab\n\r\x1b[0m", max_size=400), st.integers(60, 300))
def test_what_is_short_stays_and_what_is_long_is_bounded(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert len(short) <= limit + 120
    if len(fold(clean(text))) <= limit:
        assert short == fold(clean(text))
    assert "\x1b[0m" not in short and "\r" not in short


def test_the_end_is_kept_above_the_beginning() -> None:
    text = "".join(f"line {i}\n" for i in range(10_000)) + "AssertionError: at the very end\n"
    short = shorten(text, where="/tmp/out.txt")
    assert short.startswith("line 0\n") and short.endswith("AssertionError: at the very end\n")
    head, gap, tail = (short.partition("[...")[0], *short.partition("[...")[2].partition("...]\n")[::2])
    assert 1100 <= len(head) <= 1200 and 2700 <= len(tail) <= 2800 and "all of it is in /tmp/out.txt" in gap
    assert len(short) < LIMIT + 120


def test_one_endless_line_is_cut_too() -> None:
    short = shorten("x" * 50_000 + "END")
    assert len(short) < 4200 and short.endswith("END") and "46,003 characters" in short


def test_escape_sequences_and_progress_bars() -> None:
    assert clean("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\x1b(B") == "red link"
    assert clean("1%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
    assert clean("a\x00b\x07\tc\x7f") == "ab\tc"
    assert clean("\x1b[2J\x1b[?25l\x1b[1;1Hx") == "x"


def test_repetitions_are_said_once() -> None:
    assert fold("a\n" * 3) == "a\n" * 3
    assert fold("a\n" * 5000 + "b") == "a\n[... the line above 4,999 more times ...]\nb"
    assert fold("a\nb\n" * 10 + "c") == "a\nb\n[... the two lines above 9 more times ...]\nc"
    assert fold("\n" * 10) == "\n" * 10
