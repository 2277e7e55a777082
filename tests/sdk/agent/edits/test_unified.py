from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ultra_sdk.agent.edits.unified import apply_patch, parse_diff
from ultra_sdk.agent.errors import AmbiguousMatch, BadEdit, EditError, NoMatch

LINES = st.lists(st.sampled_from(["a", "b", "", "-- x", "++ y", "  a", "@@", "``", "\\"]), max_size=10)


@given(LINES, LINES, st.integers(0, 3), st.booleans(), st.booleans())
def test_what_difflib_writes_is_applied(
    old: list[str], new: list[str], context: int, old_end: bool, new_end: bool
) -> None:
    before, after = (
        "\n".join(x) + ("\n" if x and end else "") for x, end in ((old, old_end), (new, new_end))
    )
    parts = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/f", "b/f", n=context)
    text = "".join(p if p.endswith("\n") else p + "\n\\ No newline at end of file\n" for p in parts)
    for patch in parse_diff(text):
        try:
            assert apply_patch(before, patch) == after
        except (BadEdit, AmbiguousMatch):
            assert context == 0  # hunks without a line of context are refused where they are not sure


@given(
    st.lists(
        st.sampled_from(["--- a/f", "+++ b/f", "@@ -1,2 +1 @@", "@@", "+a", "-a", " a", "", "x", "\\ No"]),
        max_size=9,
    )
)
def test_any_answer_is_diffs_or_refused(lines: list[str]) -> None:
    try:
        for patch in parse_diff("\n".join(lines)):
            apply_patch("a\nb\n", patch)
    except EditError as error:
        assert str(error)


def hunk(body: str, header: str = "@@ -1 +1 @@") -> str:
    return f"Sure:\n```diff\n--- a/f.py\n+++ b/f.py\n{header}\n{body}```\nDone."


@pytest.mark.parametrize(
    "header", ["@@", "@@ ... @@", "@@ -9,9 +9,9 @@ def f", "@@ -1,3 +1,3 @@", "@@ -2,2 +2,2 @@"]
)
def test_line_numbers_are_only_a_hint(header: str) -> None:
    (patch,) = parse_diff(hunk(" b\n-c\n+C\n", header))
    assert patch.old == patch.new == "f.py"
    assert apply_patch("a\nb\nc\nd\n", patch) == "a\nb\nC\nd\n"


def test_numbers_decide_between_equal_places_and_without_them_it_is_refused() -> None:
    content = "x\ny\nx\ny\n"
    (patch,) = parse_diff(hunk(" x\n-y\n+z\n", "@@ -3,2 +3,2 @@"))
    assert apply_patch(content, patch) == "x\ny\nx\nz\n"
    (patch,) = parse_diff(hunk(" x\n-y\n+z\n", "@@ -2,2 +2,2 @@"))
    with pytest.raises(AmbiguousMatch, match="2 times"):
        apply_patch(content, patch)


def test_indentation_may_differ_and_lines_must_be_there() -> None:
    (patch,) = parse_diff(hunk(" def f():\n-    return 1\n+    return 2\n"))
    assert (
        apply_patch("class A:\n    def f():\n        return 1\n", patch)
        == "class A:\n    def f():\n        return 2\n"
    )
    with pytest.raises(NoMatch, match="a hunk's text is not in"):
        apply_patch("nothing\n", patch)


def test_new_and_removed_files() -> None:
    (patch,) = parse_diff("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1,2 @@\n+a\n+b\n")
    assert patch.old is None and apply_patch("", patch) == "a\nb\n"
    (patch,) = parse_diff("--- a/old.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n")
    assert patch.new is None and apply_patch("a\nb\n", patch) == ""


def test_several_files_and_hunks() -> None:
    text = (
        "diff --git a/f b/f\nindex 1..2\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n@@ -3 +3 @@\n-c\n+C\n"
        "--- a/g\n+++ b/g\n@@\n-x\n"
    )
    first, second = parse_diff(text)
    assert apply_patch("a\nb\nc\n", first) == "A\nb\nC\n" and apply_patch("x\ny\n", second) == "y\n"


@pytest.mark.parametrize(
    "text", ["--- a/f\n+++ b/f\n", "--- a/f\n+++ b/f\n@@\n", "rename from a\nrename to b\n"]
)
def test_what_is_no_diff_is_refused(text: str) -> None:
    with pytest.raises(BadEdit):
        parse_diff(text)
    assert parse_diff("just words") == []
