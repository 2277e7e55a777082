from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.edits.indent import reindented
from ultra_sdk.agent.edits.match import nearest, replace_lines, replace_text
from ultra_sdk.agent.errors import AmbiguousMatch, BadEdit, EditError, NoMatch

LINES = st.lists(st.sampled_from(["a", "  a", "b", "", "a b", "}", "\tc"]), max_size=7)


def joined(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


@given(LINES, LINES, LINES, LINES)
def test_lines_that_are_there_once_are_replaced_and_nothing_else(
    above: list[str], old: list[str], below: list[str], new: list[str]
) -> None:
    whole = above + old + below
    places = [i for i in range(len(whole) - len(old) + 1) if whole[i : i + len(old)] == old]
    if not "".join(old).strip():
        return
    if len(places) > 1:
        with pytest.raises(AmbiguousMatch):
            replace_lines(joined(whole), joined(old), joined(new))
    else:
        assert replace_lines(joined(whole), joined(old), joined(new)) == joined(above + new + below)


@given(LINES, LINES, LINES)
def test_an_edit_is_done_or_refused_and_never_crashes(
    whole: list[str], old: list[str], new: list[str]
) -> None:
    try:
        replace_lines(joined(whole), joined(old), joined(new))
    except EditError as error:
        assert str(error)


@pytest.mark.parametrize("old", ["done", "do.e", "(x)", "a+b", "$x", "\\d"])
@pytest.mark.parametrize(
    "new", ["$& ok", "$$", "\\1", "\\g<0>", "\\n", "a\\", "%s", "{0}", "&", "</parameter>", "\u2028"]
)
def test_the_new_text_is_written_as_it_is(old: str, new: str) -> None:
    content = f'log("{old}");\n# tail `{old}` end\n'
    assert replace_text(content, old, new, every=True) == content.replace(old, new)
    once = f'log("{old}");\n'
    assert replace_text(once, old, new) == once.replace(old, new)
    with pytest.raises(AmbiguousMatch, match=r"2 times \(lines 1, 2\); quote more lines"):
        replace_text(content, old, new)


def test_indentation_and_trailing_space_may_differ_where_the_lines_are_there_once() -> None:
    content = "class A:\n    def f(self):\n        x = 1  \n        return x\n"
    edited = replace_lines(
        content,
        "def f(self):\n    x = 1\n    return x\n",
        "def f(self):\n    if x:\n        x = 2\n    return x\n",
    )
    assert edited == "class A:\n    def f(self):\n        if x:\n            x = 2\n        return x\n"
    with pytest.raises(AmbiguousMatch):
        replace_lines("  a = 1\n    a = 1\n", "a = 1  \n", "a = 2\n")


def test_lines_that_an_edit_only_quotes_keep_their_bytes() -> None:
    content = "def f():  \n\tx = 1 \n\ty = 2\t\n"
    edited = replace_lines(content, "def f():\n    x = 1\n    y = 2\n", "def f():\n    x = 1\n    y = 3\n")
    assert edited == "def f():  \n\tx = 1 \n\ty = 3\n"


def test_white_space_inside_lines_may_differ_too() -> None:
    assert replace_lines("g()\nf(a,b)\n", "f(a, b)\n", "f(b, a)\n") == "g()\nf(b, a)\n"
    with pytest.raises(AmbiguousMatch):
        replace_lines("f(a,b)\nf( a,b )\n", "f(a, b)\n", "f(b, a)\n")


def test_blank_lines_around_the_search_do_not_count() -> None:
    assert replace_lines("a\nb\nc\n", "\nb\n\n", "\nB\n\n") == "a\nB\nc\n"


def test_a_part_of_a_line_is_found_where_it_cuts_no_word() -> None:
    assert replace_lines('log("done");\n', "done\n", "ok\n") == 'log("ok");\n'
    with pytest.raises(NoMatch):
        replace_lines("undone\n", "done\n", "ok\n")
    with pytest.raises(AmbiguousMatch):
        replace_lines("x(done); y(done)\n", "done\n", "ok\n")


def test_the_last_line_keeps_its_missing_newline() -> None:
    assert replace_lines("a\nb", "b\n", "c\n") == "a\nc"
    assert replace_lines("a\nb", "a\n", "c\n") == "c\nb"
    assert replace_lines("a\n", "a\n", "") == ""


def test_an_empty_search_is_for_empty_files() -> None:
    assert replace_lines("", "", "new\n") == "new\n"
    with pytest.raises(BadEdit, match="SEARCH is empty"):
        replace_lines("a\n", "\n", "new\n")
    with pytest.raises(BadEdit):
        replace_text("a\n", "", "b")


def test_a_refusal_shows_the_nearest_lines() -> None:
    content = joined(
        [f"filler number {i}" for i in range(100)]
        + ["def total(items):", "    return sum(items)"]
        + ["other"] * 50
    )
    with pytest.raises(NoMatch) as caught:
        replace_lines(content, "def total(values):\n    return sum(values)\n", "x\n")
    shown = str(caught.value).split("\n")[1:]
    assert (
        len(shown) == 20 and "  101  def total(items):" in shown and "  102      return sum(items)" in shown
    )
    start, end = nearest(["a"] * 5, ["b"])
    assert (start, end) == (0, 5)


def test_an_edit_that_is_done_already_is_said_to_be() -> None:
    with pytest.raises(NoMatch, match="done already"):
        replace_lines("x = 2\n", "x = 1\n", "x = 2\n")


@pytest.mark.parametrize(
    ("quoted", "real", "new", "expected"),
    [
        (["x"], ["    x"], ["y", "    z", ""], ["    y", "        z", ""]),
        (["    x"], ["x"], ["    y", "        z"], ["y", "    z"]),
        (
            ["if a:", "    x"],
            ["\tif a:", "\t\tx"],
            ["if b:", "    y", "        z"],
            ["\tif b:", "\t\ty", "\t\t\tz"],
        ),
        (["    if a:", "        x"], ["\tif a:", "\t\tx"], ["            z"], ["\t\t\tz"]),
        (["\tx"], ["  x"], ["\ty", "\t\tz"], ["  y", "    z"]),
        (["        x"], ["            x"], ["    y"], ["        y"]),
        (["x", "x"], ["  x", "    x"], ["y"], None),
    ],
)
def test_indentation_is_carried_over(
    quoted: list[str], real: list[str], new: list[str], expected: list[str] | None
) -> None:
    assert reindented(quoted, real, new) == expected
