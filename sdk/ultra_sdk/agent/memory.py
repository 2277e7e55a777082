"""What a session knows: the conversation as the model is shown it, and the transcript that keeps it all."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from .conversation import Called, Entry, rebuilt, records
from .transcript import Transcript

VERSION = 1
CHARS_PER_TOKEN = 3.0
INTERRUPTED = "interrupted: it did not finish"


class Memory:
    """The conversation, written down before anything is done with it.

    Opened on a transcript that exists, it goes on from what that tells.
    """

    def __init__(self, transcript: Transcript, about: dict[str, Any]) -> None:
        self._transcript = transcript
        lines = list(transcript.records())
        self.entries: list[Entry] = rebuilt(lines)
        self.resumed = bool(self.entries)
        self.chars_per_token = CHARS_PER_TOKEN
        """Measured whenever the engine says how many tokens a prompt had."""
        self._number = sum(1 for line in lines if "id" in line)
        self.note({"type": "session", "version": VERSION, "at": time.time(), **about})

    def task(self, text: str, title: str) -> None:
        """A person asks for something."""
        self._say(Entry("user", text, task=True), title=title)

    def tell(self, text: str) -> None:
        """The loop tells the model something, in the person's place."""
        self._say(Entry("user", text))

    def answer(self, text: str) -> None:
        """The model said something."""
        self._say(Entry("assistant", text))

    def next_id(self) -> str:
        """A name for a call that no other call of the session has."""
        self._number += 1
        return f"c{self._number}"

    def call(self, called: Called) -> None:
        """A call of the last answer begins."""
        self.note({"type": "call", "id": called.id, "tool": called.tool, "arguments": called.arguments})
        at = max(i for i, entry in enumerate(self.entries) if entry.role == "assistant")
        last = self.entries[at]
        self.entries[at] = msgspec.structs.replace(last, calls=(*last.calls, called))

    def result(self, called: Called, ok: bool, text: str) -> None:
        """It is over."""
        self._say(Entry("result", text, called.id, called.tool, ok))

    def close_calls(self, text: str = INTERRUPTED) -> None:
        """Give every call that has no result one that says why."""
        answered = {entry.id for entry in self.entries if entry.role == "result"}
        for entry in list(self.entries):
            for called in entry.calls:
                if called.id not in answered:
                    self.result(called, False, text)

    def replace(self, entries: list[Entry]) -> None:
        """The conversation was made shorter; the transcript keeps the longer one, too."""
        self.note({"type": "compaction", "entries": msgspec.to_builtins(entries)})
        self.entries = list(entries)

    def note(self, record: dict[str, Any]) -> None:
        """Write something down that is no part of the conversation."""
        self._transcript.append(record)

    def close(self) -> None:
        """Let others have the transcript."""
        self._transcript.close()

    def _say(self, entry: Entry, **more: Any) -> None:
        for record in records(entry):
            self.note(record | more)
        self.entries.append(entry)
