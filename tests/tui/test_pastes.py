from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from ultra_tui.pastes import Pastes, is_long

TEXTS = st.text(st.sampled_from("ab\n[]#Pasted 2lines"), min_size=1, max_size=40)


@given(st.lists(TEXTS, max_size=5), st.lists(st.integers(0, 4), max_size=6))
def test_marks_expand_to_exactly_what_was_pasted(texts: list[str], order: list[int]) -> None:
    pastes = Pastes()
    marks = [pastes.mark(text) for text in texts]
    chosen = [number for number in order if number < len(texts)]
    shown = "-".join(marks[number] for number in chosen)
    assert pastes.expand(shown) == "-".join(texts[number] for number in chosen)


def test_the_same_text_gets_the_same_mark_and_another_one_its_own() -> None:
    pastes = Pastes()
    assert pastes.mark("a\nb") == pastes.mark("a\nb") == "[Pasted 2 lines]"
    assert pastes.mark("c\nd") == "[Pasted 2 lines #2]"
    assert pastes.mark("x" * 2000) == "[Pasted 2,000 characters]"


def test_a_mark_typed_by_hand_stays_text() -> None:
    assert Pastes().expand("[Pasted 3 lines]") == "[Pasted 3 lines]"


def test_a_mark_is_found_around_the_cursor() -> None:
    pastes = Pastes()
    mark = pastes.mark("a\nb")
    line = f"x {mark} y"
    assert pastes.ending_at(line, 2) is None
    assert pastes.ending_at(line, 2 + len(mark)) == 2
    assert pastes.ending_at(line, 5) == 2
    assert pastes.ending_at(line, 4 + len(mark)) is None
    assert pastes.length_at(line, 2) == len(mark)


def test_what_was_sent_is_shown_with_its_marks_again() -> None:
    pastes = Pastes()
    mark = pastes.mark("a\nb")
    assert pastes.shown("say a\nb") == f"say {mark}"


def test_is_long() -> None:
    assert is_long("x\n" * 10) and is_long("x" * 1001)
    assert not is_long("x\n" * 9) and not is_long("x" * 1000)
