from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.edits.blocks import parse_blocks
from ultra_sdk.agent.errors import AmbiguousMatch, BadEdit, EditError

BLOCK = "f.txt\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n"
CASES = {
    "heading": ("Title\n=====\n\nOld\n=======\nmore\n", "Old\n=======\n", "New heading\n===========\n"),
    "conflict": (
        "a\n<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> branch\nb\n",
        "<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> branch\n",
        "y\n",
    ),
    "conflict at the end": (
        "<<<<<<< HEAD\nx\n=======\n>>>>>>> b\n",
        "<<<<<<< HEAD\nx\n=======\n>>>>>>> b\n",
        "x\n",
    ),
    "fences": (
        "# r\n```sh\nmake\n```\nend\n",
        "```sh\nmake\n```\n",
        "```sh\nmake all\n```\n\n```text\nok\n```\n",
    ),
    "divider alone": ("one\n=======\ntwo\n", "=======\n", "-------\n"),
    "long rule": ("T\n" + "=" * 40 + "\nx\n", "x\n", "y\n" + "=" * 40 + "\n"),
    "new divider": ("T\nx\n", "x\n", "y\n=======\nz\n"),
    "mark in a line": ("say '>>>>>>> REPLACE' here\nz\n", "z\n", "zz >>>>>>> REPLACE now\n"),
    "indented fence": ("- item\n  ```python\n  x = 1\n  ```\n", "  x = 1\n", "  x = 2\n"),
}


@pytest.mark.parametrize("wrap", ["{}", "Here is the change:\n\n```\n{}```\nDone.\n", "```diff\n{}```"])
@pytest.mark.parametrize("name", CASES)
def test_files_that_hold_dividers_themselves(name: str, wrap: str) -> None:
    content, old, new = CASES[name]
    (block,) = parse_blocks(wrap.format(BLOCK.format(old=old, new=new)))
    assert block.path == "f.txt" and block.applied(content) == content.replace(old, new, 1)


def test_two_readings_that_both_fit_are_refused_and_longer_marks_help() -> None:
    content = "a\n=======\nb\n"
    (block,) = parse_blocks(BLOCK.format(old="a\n", new="b\n=======\nc\n"))
    with pytest.raises(AmbiguousMatch, match="9 characters"):
        block.applied(content)
    (block,) = parse_blocks("f.txt\n<<<<<<<<< SEARCH\na\n=========\nb\n=======\nc\n>>>>>>>>> REPLACE\n")
    assert block.applied(content) == "b\n=======\nc\n=======\nb\n"


@given(
    st.lists(
        st.sampled_from(["=======", "a", "<<<<<<< SEARCH", ">>>>>>> REPLACE", "=========", ""]), max_size=4
    )
)
def test_with_longer_marks_any_text_is_safe(lines: list[str]) -> None:
    text = "".join(line + "\n" for line in lines)
    for old, new in (("x\n", text), (text + "x\n", "y\n")):
        content = f"0\n{old}1\n"
        answer = f"f\n{'<' * 12} SEARCH\n{old}{'=' * 12}\n{new}{'>' * 12} REPLACE\n"
        (block,) = parse_blocks(answer)
        assert block.applied(content) == content.replace(old, new, 1)


@given(
    st.lists(
        st.sampled_from(["=======", "a", "<<<<<<< SEARCH", ">>>>>>> REPLACE", "```", "f.py", ""]), max_size=12
    )
)
def test_any_answer_is_blocks_or_refused(lines: list[str]) -> None:
    try:
        for block in parse_blocks("\n".join(lines)):
            block.applied("a\n=======\n")
    except EditError as error:
        assert str(error)


@pytest.mark.parametrize(
    "text",
    [
        "<<<<<<< SEARCH\na\n=======\nb\n",
        "<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\na\n=======\nb\n<<<<<<< SEARCH\n=======\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\nc\n>>>>>>> REPLACE\n",
    ],
)
def test_broken_blocks_are_refused(text: str) -> None:
    with pytest.raises(BadEdit):
        parse_blocks(text)


@pytest.mark.parametrize(
    ("above", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("`src/a.py`:", "src/a.py"),
        ("**src/a.py**", "src/a.py"),
        ("### src/a.py", "src/a.py"),
        ("File: `my file.py`", "my file.py"),
        ("Path: a b/c.py", "a b/c.py"),
        ("src/a.py\n```python", "src/a.py"),
        ("src/a.py\n\n```", "src/a.py"),
        ("Makefile", "Makefile"),
        ("Now I change the code in a.py", None),
        ("Like this:", None),
        ("", None),
    ],
)
def test_the_path_stands_above_the_block(above: str, path: str | None) -> None:
    answer = f"{above}\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"
    assert parse_blocks(answer)[0].path == path
    crlf = answer.replace("\n", "\r\n")
    assert parse_blocks(crlf)[0].readings == (("a\n", "b\n"),)


def test_the_path_may_stand_in_the_mark() -> None:
    (block,) = parse_blocks("<<<<<<< SEARCH src/a.py\na\n=======\nb\n>>>>>>> REPLACE\n")
    assert block.path == "src/a.py"
