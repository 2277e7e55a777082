"""Which scanner reads a model's answers: told by its chat template and its vocabulary, not by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .harmony import MARK_CODES, HarmonyScanner
from .headers import CHANNEL, MESSAGE, NAMES
from .scanner import Scanner
from .tagged import MARKS, TagScanner
from .thoughts import THINK
from .tools import Tools

NO_TOOLS = Tools()
_OPENED = re.compile(rf"(?:{'|'.join(THINK)})\s*\Z")
OPENED_TAIL = 16
"""Tokens at the end of a prompt in which the opening of the reasoning may stand."""


@dataclass(frozen=True, slots=True)
class Format:
    """How answers of a model are to be read. ``control``: its hidden tokens by name."""

    harmony: bool
    reasoning: bool
    """Whether the model thinks before it answers."""
    control: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, source: str | None, control: Mapping[str, int]) -> Format:
        """Of the model with this template and these hidden tokens."""
        text = source or ""
        harmony = all(mark in text or mark in control for mark in (CHANNEL, MESSAGE))
        return cls(harmony, harmony or any(closer in text for closer in THINK.values()), control)

    def shown(self, tools: Tools) -> dict[int, str]:
        """The hidden tokens that the scanner has to see, and as what text."""
        if self.harmony:
            return {self.control[name]: code for name, code in MARK_CODES.items() if name in self.control}
        names = (*THINK, *THINK.values(), *(MARKS if tools else ()))
        return {self.control[name]: name for name in names if name in self.control}

    def scanner(self, tools: Tools, prompt: str) -> Scanner | None:
        """A scanner for one answer; None where there is nothing to find. ``prompt``: at least its end."""
        if self.harmony:
            return HarmonyScanner(tools, marks={name: name for name in NAMES if name not in self.control})
        if tools or self.reasoning:
            return TagScanner(tools, thinking=self.reasoning and _OPENED.search(prompt) is not None)
        return None


@dataclass(frozen=True, slots=True)
class Reading:
    """How the answers to one request are to be read. Without a format they are text and nothing else."""

    format: Format | None = None
    tools: Tools = NO_TOOLS
    prompt: str = ""

    @property
    def shown(self) -> dict[int, str]:
        return {} if self.format is None else self.format.shown(self.tools)

    def scanner(self) -> Scanner | None:
        """A new scanner, for one sample."""
        return None if self.format is None else self.format.scanner(self.tools, self.prompt)


PLAIN = Reading()
"""Of text and nothing else."""
