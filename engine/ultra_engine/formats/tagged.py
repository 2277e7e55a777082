"""The scanner of all families that write their calls into plain text, between tags or without any.

Reasoning is what stands between ``<think>`` tags at the beginning. Then the text is searched for every form
of call that is known, whatever the family: models fall back to forms that they saw elsewhere. Without tools
there is nothing to search for.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .cursor import Wait
from .fences import CALL_LANGUAGES, Fence, opening
from .functions import FUNCTION, FunctionCall
from .json_calls import JsonCalls, NoCall
from .mistral import MISTRAL, MISTRAL_MARKS, MistralCall
from .pairs import KEY, PAIR_MARKS, PairsCall
from .scanner import Scanner, new_id
from .strict import NotJson
from .thoughts import Thoughts
from .tools import Tools

CLOSERS = {
    "<tool_call>": "</tool_call>",
    "<tools>": "</tools>",
    "<tool>": "</tool>",
    "<function_call>": "</function_call>",
}
LOOSE = ("<tools>", "<tool>")
"""Tags that may well be something else."""
PYTHON = "<|python_tag|>"
OPENERS = (*CLOSERS, FUNCTION, PYTHON, MISTRAL)
ENDS = (*CLOSERS.values(), "</function>")
MARKS = (*OPENERS, *ENDS, *MISTRAL_MARKS, *PAIR_MARKS, "</parameter>")
"""Tags that may be tokens of their own."""

MAX_ODD = 400
"""Characters between tags of a call that may turn out to be none; beyond that they are text."""

_PLAIN = re.compile(r"[^\n<\[{`~]+")
_NO_TAG = re.compile(r"[^<\[]+")
_LINE = re.compile(r"[^\n]*\n?")
_ALL = re.compile(r".+", re.DOTALL)

Read = Callable[[], Wait[None]]


class TagScanner(Scanner):
    """``thinking``: the prompt has opened the reasoning already."""

    def __init__(self, tools: Tools, *, thinking: bool = False, make_id: Callable[[], str] = new_id) -> None:
        super().__init__(make_id)
        self._tools, self._thinking = tools, thinking
        self._fresh = True  # nothing but space since the last line break

    def scan(self) -> Wait[None]:
        yield from Thoughts(self, self._tools).read(self._thinking)
        while char := (yield from self.cursor.char()):
            if not self._tools:
                self.text(self.cursor.run(_ALL))
            elif plain := self.cursor.run(_PLAIN):
                self._say(plain)
            elif not (yield from self._found(char)):
                self._say(self.cursor.take(1))

    def _say(self, text: str) -> None:
        self.text(text)
        tail = text.rpartition("\n")[2]
        self._fresh = (self._fresh or "\n" in text) and not tail.strip()

    def _found(self, char: str) -> Wait[bool]:
        """Take what begins at a remarkable character. False, with nothing taken, if it is just text."""
        if char in "<[" and (opener := (yield from self.cursor.literal(OPENERS))):
            if (yield from self._tagged(opener, 0)):
                yield from self._after_calls()
                return True
        if self._fresh and char in "{[":
            self.cursor.record()
            if (yield from self._bare()):
                yield from self._after_calls()
            return True
        return self._fresh and char in "`~" and (yield from self._fence())

    def _after_calls(self, mark: str = "") -> Wait[None]:
        """Pass closing tags, also of the fence ``mark``, and the space up to the next call or the end."""
        self._fresh = False
        while True:
            blank = yield from self.cursor.blank()
            closers = (*ENDS, mark) if mark else ENDS
            if closer := (yield from self.cursor.literal(closers, blank)):
                self.syntax(self.cursor.take(blank + len(closer)))
                mark = "" if closer == mark else mark
                continue
            over = not (yield from self.cursor.char(blank))
            if over or (yield from self.cursor.literal(OPENERS, blank)):
                self.syntax(self.cursor.take(blank))
            return

    # --- between tags -------------------------------------------------------------------------------

    def _tagged(self, opener: str, offset: int) -> Wait[bool]:
        """Take the calls behind the opening tag at ``offset``. False, with nothing taken, if it is none."""
        inside = offset
        if opener != FUNCTION:
            inside = yield from self.cursor.blank(offset + len(opener))
        read = yield from self._form(opener, inside)
        if read is None:
            return not offset and (yield from self._odd(opener))
        self.cursor.record()
        self.cursor.take(inside)
        try:
            yield from read()
        except NotJson as error:
            yield from self._broken(CLOSERS.get(opener, ""), str(error))
        except NoCall:
            self._say(self.cursor.stop_recording())
        else:
            self._end()
        return True

    def _end(self) -> None:
        raw = self.cursor.stop_recording()
        if self.started:
            self.end(raw)
        else:
            self.syntax(raw)

    def _form(self, opener: str, inside: int) -> Wait[Read | None]:
        """How to read what begins at offset ``inside``."""
        char = yield from self.cursor.char(inside)
        ends = (CLOSERS[opener],) if opener in CLOSERS else ()
        if char and char in "{[":
            return JsonCalls(self, self._tools, ends, known=opener in LOOSE).read
        if (yield from self.cursor.literal((FUNCTION,), inside)):
            function = FunctionCall(self, self._tools)
            name = yield from function.head(inside)
            return function.read if name in self._tools or (name and opener != FUNCTION) else None
        end = yield from self.cursor.word(inside)
        behind = yield from self.cursor.blank(end)
        if end == inside:
            return None
        if opener == "<tool_call>" and (yield from self.cursor.literal((KEY, *ends), behind)):
            return PairsCall(self, self._tools).read
        if opener == MISTRAL and (yield from self.cursor.literal((*MISTRAL_MARKS, "{"), behind)):
            return MistralCall(self).read
        return None

    def _odd(self, opener: str) -> Wait[bool]:
        """Something between tags that is no call: told to the model if the tag begins a line, else text."""
        closer = CLOSERS.get(opener, "")
        if not self._fresh or opener in LOOSE or opener == FUNCTION:
            return False
        end, tag = len(opener), ""
        while (yield from self.cursor.char(end)):
            if closer and (tag := (yield from self.cursor.literal((closer,), end))):
                break
            end += 1
            if end > MAX_ODD:
                return False
        said = self.cursor.text(len(opener), end).strip()
        if said and closer and not tag:
            return False
        what = "is not valid" if said else "is empty"
        why = f'the tool call {what}; write {opener}{{"name": "...", "arguments": {{...}}}}{closer}'
        self.malformed(self.cursor.take(end + len(tag)), why)
        return True

    def _broken(self, closer: str, why: str) -> Wait[None]:
        """Give a call up: it ends where its closing tag stands, or the next call begins."""
        raw = self.cursor.recorded()
        stop = raw.find(closer) if closer else -1
        if stop >= 0:
            stop += len(closer)
            self.cursor.stop_recording()
            self.cursor.put_back(raw[stop:])
            raw = raw[:stop]
        else:
            while (yield from self.cursor.char()) and not (yield from self.cursor.literal((*ENDS, *OPENERS))):
                self.cursor.run(_NO_TAG) or self.cursor.take(1)
            raw = self.cursor.stop_recording()
        self.malformed(raw, _said(why))

    # --- without tags -------------------------------------------------------------------------------

    def _bare(self) -> Wait[bool]:
        """Take JSON, to which what is recorded leads; whether it was a call, or meant as one, and no text."""
        try:
            yield from JsonCalls(self, self._tools, known=True).read()
        except (NoCall, NotJson) as error:
            raw = self.cursor.stop_recording()
            if not self.started:
                self._say(raw)
                return False
            self.malformed(raw, _said(str(error)))
        else:
            self._end()
        return True

    def _fence(self) -> Wait[bool]:
        """Take a block of code, or the call that is in it."""
        found = yield from opening(self.cursor)
        if found is None:
            return False
        mark, language, length = found
        if language in CALL_LANGUAGES:
            inside = yield from self.cursor.blank(length)
            char = yield from self.cursor.char(inside)
            opener = yield from self.cursor.literal(OPENERS, inside)
            if opener and (yield from self._tagged(opener, inside)):
                yield from self._after_calls(mark)
                return True
            if char and char in "{[":
                self.cursor.record()
                self.cursor.take(inside)
                if (yield from self._bare()):
                    yield from self._after_calls(mark)
                    return True
                length = 0
        yield from self._code(mark, length)
        return True

    def _code(self, mark: str, length: int) -> Wait[None]:
        """A block of code, as text up to its end; ``length`` of its first line, or 0 if that was said."""
        fence = Fence(mark)
        if length:
            self._say(self.cursor.take(length))
        while fence.open and (yield from self.cursor.char()):
            line = self.cursor.run(_LINE)
            fence.see(line)
            self._say(line)


def _said(why: str) -> str:
    return why if why.startswith("the ") else f"the tool call is not valid JSON: {why}"
