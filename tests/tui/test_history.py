from __future__ import annotations

from ultra_tui.history import History


def test_a_walk_keeps_the_draft() -> None:
    history = History()
    history.add("first")
    history.add("second")
    assert [history.back("draft"), history.back("second"), history.back("first")] == ["second", "first", None]
    assert [history.forward(), history.forward(), history.forward()] == ["second", "draft", None]


def test_without_entries_nothing_happens() -> None:
    history = History()
    assert history.back("draft") is None
    assert history.forward() is None


def test_editing_a_recalled_entry_changes_no_entry() -> None:
    history = History()
    history.add("one")
    assert history.back("") == "one"
    assert history.forward() == ""
    assert history.back("") == "one"


def test_the_same_text_twice_is_one_entry() -> None:
    history = History()
    for text in ("a", "b", "b"):
        history.add(text)
    assert [history.back(""), history.back(""), history.back("")] == ["b", "a", None]
