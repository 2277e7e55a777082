"""Where drafts come from: matches, sources left and found again, texts that repeat themselves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from ultra_kernels.drafting import ALIGNED, Drafting, Suffix

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=60)


def offered(history: list[int], most: int = 6, corpus: tuple[list[int], ...] = ()) -> list[int]:
    return list(Suffix(Drafting(history, corpus)).offer(most).tokens)


def test_what_followed_the_last_time() -> None:
    assert offered([1, 2, 3, 4, 9, 1, 2]) == [3, 4, 9, 1, 2, 3]
    assert offered([1, 2, 3, 4, 9, 1, 2], most=2) == [3, 4]


def test_one_token_is_no_match() -> None:
    assert offered([1, 2, 3, 2]) == []
    assert offered([5]) == []


def test_the_longest_match_wins_and_of_equal_ones_the_latest() -> None:
    assert offered([7, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2])[0] == 3
    assert offered([1, 2, 3, 8, 1, 2, 4, 7, 1, 2])[0] == 4


def test_a_text_that_repeats_itself_goes_on_repeating() -> None:
    assert offered([1, 2, 1, 2, 1, 2], most=7) == [1, 2, 1, 2, 1, 2, 1]
    assert offered([4, 4, 4], most=3) == [4, 4, 4]


def test_other_texts_end_where_they_end() -> None:
    assert offered([1, 2], corpus=([8, 1, 2, 3], [9])) == [3]
    assert offered([1, 2], corpus=([8, 1], [2, 3])) == []


def follow(source: list[int], text: list[int]) -> Suffix:
    """A drafter that was asked before every token of ``text``, a rewriting of ``source``."""
    drafter = Suffix(Drafting([*source, 90, *source[:4]]))
    for token in text[4:]:
        drafter.offer(4)
        drafter.append(token)
    return drafter


def test_behind_a_replaced_token_the_source_goes_on() -> None:
    source = list(range(10, 30))
    offer = follow(source, [*source[:8], 77]).offer(4)
    assert offer.kind == ALIGNED and list(offer.tokens) == source[9:13]


def test_behind_a_token_left_out_the_source_goes_on() -> None:
    source = list(range(10, 30))
    drafter = follow(source, [*source[:8], source[9]])
    assert list(drafter.offer(3).tokens) == source[10:13]


def test_a_source_that_is_never_right_is_given_up() -> None:
    source = list(range(10, 40))
    drafter = follow(source, [*source[:8], *range(60, 68)])
    assert drafter.offer(4).tokens
    assert not follow(source, [*source[:8], *range(60, 69)]).offer(4).tokens


def test_chances_follow_what_was_seen() -> None:
    drafter = Suffix(Drafting([1, 2, 3, 4, 1, 2]))
    first = drafter.offer(4)
    for _ in range(30):
        drafter.learn(first, 4, 4)
    sure = drafter.offer(4).chance
    for _ in range(60):
        drafter.learn(first, 0, 1)
    assert drafter.offer(4).chance < 0.1 < first.chance < 0.9 < sure <= 1


def test_what_was_not_seen_teaches_nothing() -> None:
    drafter = Suffix(Drafting([1, 2, 3, 4, 1, 2]))
    offer = drafter.offer(4)
    drafter.learn(offer, 0, 0)
    assert drafter.offer(4).chance == offer.chance


@given(history=TOKENS, corpus=st.lists(TOKENS, max_size=3), more=TOKENS, most=st.integers(0, 20))
def test_an_offer_is_some_of_the_text(
    history: list[int], corpus: list[list[int]], more: list[int], most: int
) -> None:
    drafter = Suffix(Drafting(history, corpus))
    for token in more:
        drafter.append(token)
        offer = drafter.offer(most)
        assert len(offer.tokens) <= most and all(0 <= token <= 3 for token in offer.tokens)
        assert 0 <= offer.chance <= 1
