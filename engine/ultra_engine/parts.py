"""What a scanner found, as the parts of deltas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .formats.events import CallArguments, CallEnd, CallStart, Event, Malformed, Reasoning, Text
from .request import CallPiece

_REASONING, _TEXT, _CALLS = range(3)


@dataclass(slots=True)
class Part:
    """What one delta says: first the reasoning, then the text, then the calls."""

    reasoning: str = ""
    text: str = ""
    calls: list[CallPiece] = field(default_factory=list)
    stage: int = _REASONING


class Parts:
    """Turns the events of one sample into parts, as few as keep their order."""

    def __init__(self) -> None:
        self.calls = 0
        """Whole calls so far."""
        self._begun: set[int] = set()

    def of(self, events: Iterable[Event]) -> list[Part]:
        """The parts that say ``events``."""
        parts: list[Part] = []

        def part(stage: int) -> Part:
            if not parts or parts[-1].stage > stage:
                parts.append(Part())
            parts[-1].stage = stage
            return parts[-1]

        for event in events:
            match event:
                case Reasoning(text):
                    part(_REASONING).reasoning += text
                case Text(text):
                    part(_TEXT).text += text
                case CallStart() | CallArguments() | Malformed():
                    part(_CALLS).calls.append(self._piece(event))
                case CallEnd():
                    self.calls += 1
        return parts

    def _piece(self, event: CallStart | CallArguments | Malformed) -> CallPiece:
        match event:
            case CallStart(index, name, id):
                self._begun.add(index)
                return CallPiece(index, id, name)
            case CallArguments(index, text):
                return CallPiece(index, arguments=text)
            case Malformed(index, raw, why):
                return CallPiece(index, arguments="" if index in self._begun else raw, error=why)
