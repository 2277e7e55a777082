from __future__ import annotations

import pytest
from pygments.token import Token
from ultra_tui.markdown.highlight import LONGEST, Highlighter, Tokens


def tokens(language: str, source: str) -> list[Tokens]:
    highlighter = Highlighter(language)
    return [highlighter.line(line) for line in source.split("\n")]


def is_kind(line: Tokens, kind: object) -> bool:
    return all(token in kind for token, text in line if text.strip())  # type: ignore[operator]


@pytest.mark.parametrize(
    "language", ["python", "js", "rust", "c", "json", "html", "yaml", "markdown", "nosuch", ""]
)
def test_no_character_is_lost(language: str) -> None:
    source = 'x = {"a": 1} # c\n\n/* open\n\tstill */ y = `z`;\n```\n<b class="q">t</b>\n- item'
    for line, found in zip(source.split("\n"), tokens(language, source), strict=True):
        assert "".join(text for _, text in found) == line


def test_a_docstring_is_a_string_on_all_its_lines() -> None:
    first, second, third = tokens("python", '"""One.\nTwo if and else."""\nif x: pass')
    assert is_kind(first, Token.Literal.String) and is_kind(second, Token.Literal.String)
    assert third[0] == (Token.Keyword, "if")


@pytest.mark.parametrize("language", ["js", "c", "rust", "java", "css", "go"])
def test_a_block_comment_is_a_comment_on_all_its_lines(language: str) -> None:
    _, first, second, third, _ = tokens(language, "a {\n/* if one\n for two\n three */\n}")
    assert all(is_kind(line, Token.Comment) for line in (first, second, third))


def test_a_comment_mark_in_a_string_opens_no_comment() -> None:
    assert not is_kind(tokens("js", 'let a = "/*";\nlet b = 1;')[1], Token.Comment)


def test_looking_at_an_unfinished_line_changes_nothing() -> None:
    highlighter = Highlighter("python")
    highlighter.peek('"""open')
    assert highlighter.line("if x: pass")[0] == (Token.Keyword, "if")


def test_an_endless_line_is_plain() -> None:
    line = "x = 1;" * LONGEST
    assert Highlighter("js").line(line) == [(Token.Text, line)]
