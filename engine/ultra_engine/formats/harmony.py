"""The scanner of gpt-oss: messages with headers, in channels.

    <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...

The marks are tokens of their own, so they reach us as single characters that no text has (`MARK_CODES`), and
a model may write about them. A header that cannot be understood costs its own message and no other: the next
mark begins anew, and a body without a header is an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from .calls import plain
from .cursor import Wait
from .headers import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, NAMES, RETURN, START, Header
from .scanner import Scanner, new_id
from .strict import NotJson, Strict
from .tools import Tools

MARK_CODES = {name: chr(0xD800 + i) for i, name in enumerate(NAMES)}
"""Half surrogates: no decoded text has them."""

_NO_TOOLS = ("", "assistant", "user", "all")
_PLAIN = re.compile(r"[^<\ud800-\udfff]+")

APART = "\n\n"
"""Put between two messages in one channel, which would run into each other."""


class HarmonyScanner(Scanner):
    """``marks``: how those are spelled in what we are fed that are no tokens: by their names."""

    def __init__(
        self, tools: Tools, *, marks: dict[str, str] | None = None, make_id: Callable[[], str] = new_id
    ) -> None:
        super().__init__(make_id)
        self._tools = tools
        spelled = {**MARK_CODES, **(marks or {})}
        self._name_of = {text: name for name, text in spelled.items()}
        self._marks = tuple(spelled.values())
        self._table = str.maketrans({code: name for name, code in MARK_CODES.items()})
        self._heard: set[str] = set()  # channels that have said something

    def scan(self) -> Wait[None]:
        while (yield from self.cursor.char()):
            header = Header()
            self.cursor.record()
            found = yield from self._header(header)
            recipient = plain(header.recipient)
            if found == MESSAGE and self._tools and recipient not in _NO_TOOLS:
                yield from self._call(recipient)
            elif found:
                if found == MESSAGE:
                    self.syntax(self.cursor.stop_recording())
                yield from self._body(header.channel)

    def syntax(self, raw: str) -> None:
        super().syntax(raw.translate(self._table))

    def end(self, raw: str) -> None:
        super().end(raw.translate(self._table))

    def malformed(self, raw: str, why: str) -> None:
        super().malformed(raw.translate(self._table), why)

    # --- headers ------------------------------------------------------------------------------------

    def _mark(self) -> Wait[str]:
        """The name of the mark at the cursor, if there is one."""
        return self._name_of.get((yield from self.cursor.literal(self._marks)), "")

    def _take_mark(self) -> Wait[None]:
        self.cursor.take(len((yield from self.cursor.literal(self._marks))))

    def _header(self, header: Header) -> Wait[str]:
        """Take a header. Empty if no body follows, `MESSAGE` if one does, `START` if one does without it."""
        while True:
            mark = yield from self._mark()
            if mark == MESSAGE:
                yield from self._take_mark()
                return mark
            if mark not in ("", CHANNEL, CONSTRAIN) or not (yield from self.cursor.char()):
                if self._give_back(header):
                    return START
                if mark != START:
                    yield from self._take_mark()
                    self.syntax(self.cursor.stop_recording())
                    return ""
            if mark:
                yield from self._take_mark()
                header.begin(mark)
            elif not header.add(self.cursor.take(1)) and self._give_back(header):
                return START

    def _give_back(self, header: Header) -> bool:
        """Put back what was read as a header and is a body; whether there is such."""
        body = header.body
        if body:
            raw = self.cursor.stop_recording()
            self.syntax(raw.removesuffix(body))
            self.cursor.put_back(body)
        return bool(body)

    # --- bodies -------------------------------------------------------------------------------------

    def _body(self, channel: str) -> Wait[None]:
        """Take a message for a person up to the mark that ends it."""
        say = self.reasoning if channel == "analysis" else self.text
        kind = "analysis" if channel == "analysis" else "final"
        first = True
        while not (yield from self._over()):
            piece = yield from self._piece()
            if first and piece and kind in self._heard:
                say(APART)
            first = first and not piece
            say(piece)
        if not first:
            self._heard.add(kind)
        self.cursor.record()
        yield from self._take_end()
        self.syntax(self.cursor.stop_recording())

    def _call(self, name: str) -> Wait[None]:
        """Take a message for a tool."""
        self.start(name)
        try:
            self.cursor.take((yield from self.cursor.blank()))
            if (yield from self.cursor.char()) == "{":
                yield from Strict(self.cursor, self.arguments, self._marks).value()
            else:
                yield from self._raw_arguments()
        except NotJson as error:
            why = f"the call of {name} is not valid JSON: {error}"
        else:
            why = ""
        while not (yield from self._over()):
            yield from self._piece()
        yield from self._take_end()
        raw = self.cursor.stop_recording()
        if why:
            self.malformed(raw, why)
        else:
            self.end(raw)

    def _raw_arguments(self) -> Wait[None]:
        """What is no JSON object is handed on as a text: code, for a tool that takes nothing else."""
        pieces: list[str] = []
        while not (yield from self._over()):
            pieces.append((yield from self._piece()))
        if not (yield from self._mark()) and self.cursor.cut:
            raise NotJson("it is cut off", self.cursor.position)
        given = "".join(pieces).strip()
        self.arguments(json.dumps(given, ensure_ascii=False) if given else "{}")

    def _over(self) -> Wait[bool]:
        mark = yield from self._mark()
        return mark in (END, RETURN, CALL, START, CHANNEL) or not (yield from self.cursor.char())

    def _piece(self) -> Wait[str]:
        """Take more of a body; a mark that has no place in one is left out."""
        stray = yield from self.cursor.literal(self._marks)
        if stray:
            self.cursor.take(len(stray))
            if not self.started:
                self.syntax(stray)
            return ""
        return self.cursor.run(_PLAIN) or self.cursor.take(1)

    def _take_end(self) -> Wait[None]:
        """Take the mark that ends a message; one that begins the next belongs to that."""
        if (yield from self._mark()) in (END, RETURN, CALL):
            yield from self._take_mark()
