"""Symbols, syntax, formats and diffs to show."""

from __future__ import annotations

import pytest
from ultra_sdk.agent.edits.diff import counts, show
from ultra_sdk.agent.edits.formats import after_failure, choose_format
from ultra_sdk.agent.edits.symbol import replace_symbol, symbols
from ultra_sdk.agent.edits.syntax import syntax_error
from ultra_sdk.agent.errors import AmbiguousMatch, BadEdit, NoMatch
from ultra_sdk.agent.workspace.files import Change
from ultra_sdk.agent.workspace.text import Text

SOURCE = '''import x

@deco
def f(a):
    """Doc."""
    return a

class A:
    def f(self):
        pass

    class B:
        async def g(self):
            pass

try:
    def h(): pass
except E:
    def h(): pass
'''


def test_a_definition_is_replaced_with_its_decorators() -> None:
    edited = replace_symbol(SOURCE, "f", "def f(a):\n    return 2\n")
    assert edited.startswith("import x\n\ndef f(a):\n    return 2\n\nclass A:")
    edited = replace_symbol(SOURCE, "A.B.g", "    async def g(self):\n\n        return 1\n")
    assert "        async def g(self):\n\n            return 1\n\ntry:" in edited
    assert symbols(SOURCE) == ["f", "A", "A.f", "A.B", "A.B.g", "h", "h"]
    assert symbols("(") == []


def test_definitions_that_are_not_there_once_are_refused() -> None:
    with pytest.raises(NoMatch, match=r"does not define g; it defines: f, A, A.f"):
        replace_symbol(SOURCE, "g", "def g(): pass")
    with pytest.raises(AmbiguousMatch, match="lines 17, 19"):
        replace_symbol(SOURCE, "h", "def h(): pass")
    with pytest.raises(BadEdit):
        replace_symbol("(", "f", "def f(): pass")
    with pytest.raises(BadEdit):
        replace_symbol(SOURCE, "f", "\n")


@pytest.mark.parametrize(
    ("path", "content", "broken"),
    [
        ("a.py", "def f(:\n", True),
        ("a.py", "x = '\\d'\n", False),
        ("a.py", "\0", True),
        ("a.py", "(" * 500, True),
        ("a.json", "{'a': 1}", True),
        ("a.json", "{}", False),
        ("a.toml", "a = ", True),
        ("a.txt", "((", False),
    ],
)
def test_syntax(path: str, content: str, broken: bool) -> None:
    assert (syntax_error(path, content) is not None) is broken


def test_formats() -> None:
    assert choose_format(1.5, 300) == "whole"
    assert choose_format(1.5, 301) == "symbol"
    assert choose_format(1.5, 301, python=False) == "blocks"
    assert choose_format(32, 10) == "blocks"
    assert after_failure("blocks", 100) == "whole"
    assert after_failure("blocks", 1000) == "symbol"
    assert after_failure("symbol", 1000) == "whole"


def change(before: bytes | None, after: bytes | None) -> Change:
    texts = [None if data is None else Text.decode(data) for data in (before, after)]
    return Change("f", *texts)


def test_a_change_is_shown() -> None:
    shown = show(change(b"a\nb\nc", b"a\nB\nc"))
    assert shown.split("\n")[:2] == ["--- a/f", "+++ b/f"]
    assert "-b\n+B\n c\n\\ No newline at end of file\n" in shown
    assert counts(change(b"a\nb\nc", b"a\nB\nc")) == (1, 1)
    assert show(change(None, b"a\n")).startswith("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n")
    assert show(change(b"a\n", None)).startswith("--- a/f\n+++ /dev/null\n")
    assert show(change(b"a\n", b"a\n")) == "" and counts(change(b"a\n", b"a\n")) == (0, 0)


def test_line_endings_that_change_are_seen() -> None:
    shown = show(change(b"a\r\nb\r\nc\r\n", b"a\r\nb\nc\r\n"))
    assert "-b\n" in shown and "+b␊\n" in shown
    assert show(change(b"a\n", b"a")) != ""


def test_huge_changes_are_shown_without_comparing_them() -> None:
    old = "".join(f"{i}\n" for i in range(15_000)).encode()
    shown = show(change(b"top\n" + old, b"top\n" + old.replace(b"\n", b"x\n")))
    assert shown.startswith("--- a/f\n+++ b/f\n@@ -2,15000 +2,15000 @@\n-0\n") and "top" not in shown
