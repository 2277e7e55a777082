"""Calls written as JSON: an object, a list of them, or several in a row."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from .calls import ARGUMENTS, NAMES, from_value, no_call, plain, plausible
from .cursor import Wait
from .scanner import Scanner
from .strict import NotJson, Strict
from .tools import Tools


class NoCall(Exception):
    """It is something else; nothing has begun."""


class JsonCalls:
    """Reads the calls at a scanner's cursor.

    ``known``: nothing around them says that they are calls, so only those of offered tools are.
    """

    def __init__(
        self, scanner: Scanner, tools: Tools, ends: Collection[str] = (), known: bool = False
    ) -> None:
        self._scanner, self._cursor = scanner, scanner.cursor
        self._tools, self._ends, self._known = tools, ends, known

    def read(self) -> Wait[None]:
        """Take the calls from ``{`` or ``[`` on. Raises `NoCall`, or `NotJson` for what cannot be one.

        Each call ends with what was recorded since the cursor's `record`, and starts a new record.
        """
        while True:
            if (yield from self._cursor.char()) == "[":
                yield from self._list()
            else:
                yield from self._object()
            after = yield from self._cursor.blank()
            while (yield from self._cursor.char(after)) in (",", ";"):
                after = yield from self._cursor.blank(after + 1)
            if (yield from self._cursor.char(after)) not in ("{", "["):
                return
            self._cursor.take(after)

    def _list(self) -> Wait[None]:
        strict = Strict(self._cursor, _ignore, self._ends)
        strict.open("[")
        count = 0
        while (yield from strict.goes_on("]")):
            if (yield from self._cursor.char()) != "{":
                if self._known:
                    raise NoCall
                raise NotJson(no_call({}), self._cursor.position)
            yield from self._object()
            count += 1
        if not count:
            if self._known:
                raise NoCall
            raise NotJson(no_call([]), self._cursor.position)

    def _object(self) -> Wait[None]:
        """One object: its arguments are handed on as they come once the name is known."""
        found: dict[str, Any] = {}
        strict = Strict(self._cursor, _ignore, self._ends)
        strict.open("{")
        while (yield from strict.goes_on("}")):
            key = yield from strict.key()
            if self._known and not plausible(key, self._name(found), self._tools):
                raise NoCall
            char = yield from strict.peek()
            name = self._name(found)
            if name and key in ARGUMENTS and char == "{" and not self._scanner.started:
                self._scanner.start(name)
                yield from Strict(self._cursor, self._scanner.arguments, self._ends).value()
                continue
            found[key] = yield from self._value()
            if self._known and (name := self._name(found)) and name not in self._tools:
                raise NoCall
        if not self._scanner.started:
            self._whole(found)
        self._scanner.end(self._cursor.recorded())
        self._cursor.record()

    def _whole(self, found: dict[str, Any]) -> None:
        calls = from_value(found, self._tools, self._known)
        if not calls:
            if self._known:
                raise NoCall
            raise NotJson(no_call(found), self._cursor.position)
        [(name, arguments)] = calls
        self._scanner.start(name)
        self._scanner.arguments(arguments)

    def _name(self, found: dict[str, Any]) -> str:
        return next((plain(found[key]) for key in NAMES if isinstance(found.get(key), str)), "")

    def _value(self) -> Wait[Any]:
        kept: list[str] = []
        yield from Strict(self._cursor, kept.append, self._ends).value(1)
        return json.loads("".join(kept))


def _ignore(text: str) -> None:
    """Brackets around a call are not part of it."""
