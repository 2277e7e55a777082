"""Pygments, one finished line at a time: the lexer's state is carried from line to line."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pygments.lexer import ExtendedRegexLexer, Lexer, LexerContext, RegexLexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token
from pygments.util import ClassNotFound

from ultra_tui.palette import TokenType

Tokens = list[tuple[TokenType, str]]
"""The tokens of one line, without its line feed."""

LONGEST = 2000
"""Characters of a line beyond which it is not highlighted."""


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False) if language else None
    except ClassNotFound:
        return None


class Highlighter:
    """Highlights the lines of one code block, in order, each once."""

    def __init__(self, language: str) -> None:
        self._lexer = _lexer(language)
        self._stack = ["root"]
        # Lexers with a context class of their own cannot be driven with the plain one.
        self._stateful = isinstance(self._lexer, RegexLexer) and not isinstance(
            self._lexer, ExtendedRegexLexer
        )
        self._in_comment = False

    def line(self, text: str) -> Tokens:
        """The tokens of the next line; a line once given is never looked at again."""
        if self._lexer is None or len(text) > LONGEST:
            return [(Token.Text, text)]
        if self._in_comment:
            head, end, text = text.partition("*/")
            self._in_comment = not end
            rest = self._lex(text) if text else []
            return [(Token.Comment.Multiline, head + end), *rest]
        if "/*" in text and self._leaves_comment(text):
            self._in_comment = True
            head, mark, rest_text = text.rpartition("/*")
            return [*(self._lex(head) if head else []), (Token.Comment.Multiline, mark + rest_text)]
        return self._lex(text)

    def peek(self, text: str) -> Tokens:
        """The tokens of a line that is not finished: nothing is remembered."""
        stack, comment = list(self._stack), self._in_comment
        tokens = self.line(text)
        self._stack, self._in_comment = stack, comment
        return tokens

    def _leaves_comment(self, text: str) -> bool:
        """Whether a ``/*`` of this line is closed by a later one, as most lexers match it in one go."""
        if "*/" in text[text.rindex("/*") :]:
            return False
        stack = list(self._stack)
        tokens = self._lex(text + "*/")
        self._stack = stack
        kind, last = tokens[-1]
        return kind in Token.Comment and last.endswith("*/")

    def _lex(self, text: str) -> Tokens:
        assert self._lexer is not None
        if self._stateful:
            context = LexerContext(text + "\n", 0, stack=self._stack)
            try:
                tokens = ExtendedRegexLexer.get_tokens_unprocessed(self._lexer, context=context)
                found = _without_feed((kind, piece) for _, kind, piece in tokens)
            except Exception:  # it has callbacks that know no context: from now on line by line
                self._stateful = False
            else:
                self._stack = context.stack
                return found
        return _without_feed(self._lexer.get_tokens(text))


def _without_feed(tokens: Iterable[tuple[TokenType, str]]) -> Tokens:
    found = [(kind, piece.replace("\n", "")) for kind, piece in tokens]
    return [(kind, piece) for kind, piece in found if piece]
