"""Calls as newer Mistral models write them: ``[TOOL_CALLS]name[ARGS]{...}``, with an id in between or not."""

from __future__ import annotations

from .cursor import MAX_WORD, Wait
from .scanner import Scanner
from .strict import NotJson, Strict

MISTRAL = "[TOOL_CALLS]"
MISTRAL_MARKS = ("[ARGS]", "[CALL_ID]")


class MistralCall:
    """Reads one call at a scanner's cursor, from its name on."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner, self._cursor = scanner, scanner.cursor

    def read(self) -> Wait[None]:
        """Take it. Raises `NotJson`."""
        self._scanner.start(self._cursor.take((yield from self._cursor.word())))
        passed = 0
        while (yield from self._cursor.char()) != "{":
            passed += 1
            if passed > MAX_WORD or not (yield from self._cursor.char()):
                raise NotJson("its arguments are missing", self._cursor.position)
            self._cursor.take(1)
        yield from Strict(self._cursor, self._scanner.arguments).value()
