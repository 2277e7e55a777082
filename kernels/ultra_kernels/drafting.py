"""Drafts without a model: the text so far, and texts like it, say how it goes on.

A file that is rewritten is its own best draft. `Suffix` finds where the last tokens stood before and offers
what followed there; when the text then leaves its source, by a change of a few tokens, it offers what follows
in the source behind the change. Nothing here decides what the text is: drafts are verified (`rounds`), and
`policy` says how many are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = -1
"""Between two texts; equal to no token, itself included."""

CANDIDATES = 32
"""Earlier places that are looked at, the latest first."""

LONGEST = 32
"""Tokens of a match that are counted."""

CERTAIN = 4
"""A match of so many tokens beats the place that the source was left at."""

AHEAD = 8
"""Tokens of the source that may be left out for the text to be found again."""

PATIENCE = 8
"""Tokens in a row that the source did not have, after which it is given up."""

ALIGNED = 5
PRIORS = (0.3, 0.45, 0.65, 0.8, 0.9, 0.4)
"""How often a draft is right before anything was seen: after matches of 2, 3, up to 7, up to 15 and more
tokens, and where a source goes on behind a change (`ALIGNED`)."""

PRIOR_WEIGHT, MEMORY = 4.0, 0.9


@dataclass(frozen=True, slots=True)
class Drafting:
    """What the drafts of one stream come from, and how many a block has at most.

    ``history`` is the text up to the token of the stream's row, its last one; ``corpus`` are other texts.
    """

    history: Sequence[int]
    corpus: Sequence[Sequence[int]] = ()
    most: int = 15


@dataclass(frozen=True, slots=True)
class Offer:
    """Drafted tokens, and the chance that each of them is right if those before it are."""

    tokens: Sequence[int]
    chance: float
    kind: int


class Suffix:
    """The drafter of one stream: `append` every token of its text, `offer`, and `learn` what came of it."""

    def __init__(self, drafting: Drafting) -> None:
        self._tokens: list[int] = []
        self._latest: dict[tuple[int, int], int] = {}
        self._before: list[int] = []  # of each place: the one before it with the same two tokens, or -1
        self._at = -1  # where the source goes on, -1 without one
        self._missed = 0  # tokens since the source was right
        self._held = False  # whether it was certain once: then it outlives a change
        self._right = [chance * PRIOR_WEIGHT for chance in PRIORS]
        self._tried = [PRIOR_WEIGHT] * len(PRIORS)
        for text in drafting.corpus:
            for token in (*text, GAP):
                self._put(token)
        for token in drafting.history:
            self._put(token)

    def append(self, token: int) -> None:
        """The text has gone on by ``token``."""
        if self._at >= 0:
            self._follow(token)
        self._put(token)

    def _put(self, token: int) -> None:
        last = self._tokens[-1] if self._tokens else GAP
        self._before.append(-1)
        if GAP not in (token, last):
            place = len(self._tokens)
            self._before[-1] = self._latest.get((last, token), -1)
            self._latest[last, token] = place
        self._tokens.append(token)

    def _follow(self, token: int) -> None:
        """Move along the source; a token that it has a little later was found again, another one replaced."""
        ahead = self._tokens[self._at : self._at + 1 + AHEAD]
        found = next((i for i, each in enumerate(ahead) if each == token), -1)
        self._missed = 0 if found >= 0 else self._missed + 1
        self._at += max(found, 0) + 1
        if self._missed > PATIENCE or self._at >= len(self._tokens):
            self._at = -1

    def offer(self, most: int) -> Offer:
        """At most ``most`` tokens, perhaps none."""
        start, length = self._match()
        aligned = self._held and self._at >= 0 and length < CERTAIN and start != self._at
        kind = ALIGNED if aligned else _kind(length)
        if not aligned:
            self._at, self._missed, self._held = start, 0, length >= CERTAIN
        if self._at < 0:
            return Offer((), 0.0, 0)
        return Offer(self._from(self._at, most), self._right[kind] / self._tried[kind], kind)

    def learn(self, offer: Offer, right: int, seen: int) -> None:
        """The first ``right`` of ``seen`` tokens of ``offer`` were what the text had."""
        if not seen:
            return
        kind = offer.kind
        self._right[kind] = self._right[kind] * MEMORY + right
        self._tried[kind] = self._tried[kind] * MEMORY + right + (1 if right < seen else 0)

    def _match(self) -> tuple[int, int]:
        """Where the longest of the latest matches goes on, and its length; -1 and 0 without one."""
        end = len(self._tokens) - 1
        place, best, longest = self._before[end] if end >= 0 else -1, -1, 0
        for _ in range(CANDIDATES):
            if place < 0 or longest == LONGEST:
                break
            length = self._common(place, end)
            if length > longest:
                best, longest = place + 1, length
            place = self._before[place]
        return best, longest

    def _common(self, a: int, b: int) -> int:
        """Tokens up to places ``a`` < ``b`` that are the same."""
        length = 0
        while (
            length < LONGEST and a >= length and self._tokens[a - length] == self._tokens[b - length] != GAP
        ):
            length += 1
        return length

    def _from(self, place: int, most: int) -> list[int]:
        """What follows; behind the end of the text it is the draft itself that repeats."""
        drafted: list[int] = []
        while len(drafted) < most:
            where = place + len(drafted)
            token = self._tokens[where] if where < len(self._tokens) else drafted[where - len(self._tokens)]
            if token == GAP:
                break
            drafted.append(token)
        return drafted


def _kind(length: int) -> int:
    return (length >= 3) + (length >= 4) + (length >= 8) + (length >= 16)
