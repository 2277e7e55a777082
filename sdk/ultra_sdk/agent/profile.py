"""How a model is driven: by which protocol, and in which form it is asked for edits.

Measured with greedy decoding (5 edits of small files each): Qwen2.5-Coder 1.5B got 4 right as whole files, 0
as SEARCH/REPLACE; the 0.5B 5 and 0. Neither writes tags around a call, so both get the plain protocol. Above
10 billion parameters the figures are aider's (`edits.formats`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from .edits.formats import SMALL_BILLIONS, Format, choose_format

Protocol = Literal["plain", "tools"]
"""Fenced files and commands in the text; or the model's own tool calls, which the server reads."""

MEASURED: tuple[tuple[str, Profile], ...]
SIZE = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)\s*b(?![a-z])", re.IGNORECASE)
UNKNOWN_BILLIONS = 3.0
"""A model whose name does not tell its size is taken for a small one."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How one model is driven."""

    billions: float = UNKNOWN_BILLIONS
    protocol: Protocol = "plain"
    edits: Format = "whole"

    @classmethod
    def of(cls, model: str, capabilities: Collection[str] = ()) -> Profile:
        """For a model by its name, on a server with these capabilities.

        Profile.of("qwen2.5-coder-1.5b")              # plain, whole files
        Profile.of("qwen3-coder-30b-a3b", ["tools"])  # tool calls, SEARCH/REPLACE
        """
        for pattern, profile in MEASURED:
            if re.search(pattern, model, re.IGNORECASE):
                return profile
        billions = size(model)
        tools = "tools" in capabilities and billions >= SMALL_BILLIONS
        return cls(billions, "tools" if tools else "plain", choose_format(billions, 1))


MEASURED = (
    (r"qwen2\.5-coder-0\.5b", Profile(0.5)),
    (r"qwen2\.5-coder-1\.5b", Profile(1.5)),
)


def size(model: str) -> float:
    """Billions of parameters by a model's name: the largest number before a B."""
    return max((float(found) for found in SIZE.findall(model)), default=UNKNOWN_BILLIONS)
