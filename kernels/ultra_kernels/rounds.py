"""Several rounds of one call: which step comes after the tokens of the last one.

A round is a block for each stream that goes on: its anchor, the last token it has, and drafts behind it
(perhaps none). Every slot is drawn as if the drafts before it were right; they are kept as far as they are
what was drawn. So the text is the same with drafts and without.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .drafting import Offer, Suffix
from .policy import StepTimes, plan
from .program import BLOCK
from .sampling import Draw
from .step import NOT_NUMBERS, Step, Stream, Took

_NOTHING = Offer((), 0.0, 0)


@dataclass(slots=True)
class _Going:
    """A stream that goes on: where its anchor is, and what it has put out."""

    index: int
    stream: Stream
    anchor: int
    position: int
    sequence: int
    output: list[int] = field(default_factory=list)
    drafter: Suffix | None = None
    offer: Offer = _NOTHING
    drafts: Sequence[int] = ()
    """What of the offer is in the step."""

    @property
    def left(self) -> int:
        """Tokens that may still come."""
        return self.stream.tokens - len(self.output)

    def draws(self) -> list[Draw]:
        """How each slot is drawn."""
        how, sofar = self.stream.draw, [*self.stream.draw.output, *self.output]
        position = how.position + len(self.output)
        return [
            replace(how, position=position + slot, output=[*sofar, *self.drafts[:slot]])
            for slot in range(len(self.drafts) + 1)
        ]

    def take(self, drawn: Sequence[int]) -> list[int]:
        """The tokens that the slots gave, to the first that shows a draft to be wrong, or ends the stream."""
        tokens: list[int] = []
        for slot, token in enumerate(drawn):
            tokens.append(token)
            ended = token == NOT_NUMBERS or token in self.stream.ends or len(tokens) == self.left
            if ended or slot == len(self.drafts) or token != self.drafts[slot]:
                break
        return tokens

    def note(self, tokens: Sequence[int]) -> None:
        """Go on behind ``tokens``."""
        if self.drafter:
            self._learn(tokens)
        self.output += tokens
        self.anchor = tokens[-1]
        self.position += len(tokens)

    def _learn(self, tokens: Sequence[int]) -> None:
        """An offer that was not taken up is judged by its first token all the same."""
        assert self.drafter
        right = 0
        while right < min(len(tokens), len(self.offer.tokens)) and tokens[right] == self.offer.tokens[right]:
            right += 1
        seen = min(len(self.offer.tokens), max(1, len(self.drafts)), len(tokens))
        self.drafter.learn(self.offer, min(right, seen), seen)
        for token in tokens:
            self.drafter.append(token)

    @property
    def over(self) -> bool:
        last = self.output[-1]
        return last == NOT_NUMBERS or last in self.stream.ends or not self.left


class Rounds:
    """The state between rounds. ``step`` and ``draws`` are what runs next; `take` moves on.

    ``times`` and ``rows`` are for drafts: what steps cost, and how many rows one has at most. Raises
    `ValueError` as `check` does.
    """

    def __init__(
        self, step: Step, streams: Sequence[Stream], vocabulary: int, times: StepTimes, rows: int
    ) -> None:
        check(step, streams, vocabulary)
        self._times, self._rows = times, rows
        self._count = len(streams)
        self._table = step.block_table
        self._going = [
            _Going(i, stream, step.tokens[row], step.positions[row], step.sequences[row])
            for i, (stream, row) in enumerate(zip(streams, step.out_rows, strict=True))
        ]
        for going in self._going:
            if going.stream.drafting and going.stream.tokens > 1:
                going.drafter = Suffix(going.stream.drafting)
        self.step = step
        if len(step.tokens) == len(step.out_rows) and any(going.drafter for going in self._going):
            self._begin()

    @property
    def draws(self) -> list[Draw]:
        """How the rows of ``step.out_rows`` are drawn."""
        return [draw for going in self._going for draw in going.draws()]

    def parts(self) -> Iterator[tuple[Step, list[Draw]]]:
        """``step`` and ``draws`` row by row, but prompts whole: no row depends on its company."""
        step, draws = self.step, self.draws
        if len(step.tokens) != len(step.out_rows):
            yield step, draws
            return
        for row, how in zip(step.out_rows, draws, strict=True):
            one = slice(row, row + 1)
            rows = (step.tokens[one], step.positions[one], step.sequences[one])
            yield Step(*rows, step.block_table, [0]), [how]

    def take(self, drawn: Sequence[int]) -> list[Took]:
        """The tokens that ``step`` gave, one for each of its ``out_rows``; returns what each stream took."""
        took = [Took()] * self._count
        first = 0
        for going in self._going:
            end = first + len(going.drafts) + 1
            tokens = going.take(drawn[first:end])
            took[going.index] = Took(tokens, len(going.drafts))
            going.note(tokens)
            first = end
        self._going = [going for going in self._going if not going.over]
        if self._going:
            self._begin()
        return took

    def _begin(self) -> None:
        """The next step: a block for each stream."""
        for going in self._going:
            most = min(going.stream.drafting.most, going.left - 1) if going.stream.drafting else 0
            going.offer = going.drafter.offer(most) if going.drafter else _NOTHING
        counts = plan([going.offer for going in self._going], self._times, self._rows)
        for going, count in zip(self._going, counts, strict=True):
            going.drafts = going.offer.tokens[:count]
        blocks = [(going, slot) for going in self._going for slot in range(len(going.drafts) + 1)]
        self.step = Step(
            tokens=[token for going in self._going for token in (going.anchor, *going.drafts)],
            positions=[going.position + slot for going, slot in blocks],
            sequences=[going.sequence for going, _ in blocks],
            block_table=self._table,
            out_rows=range(len(blocks)),
        )

    @property
    def over(self) -> bool:
        """Whether every stream has ended."""
        return not self._going


def check(step: Step, streams: Sequence[Stream], vocabulary: int) -> None:
    """Raise `ValueError` for streams that do not fit the step: see `Executor.generate`."""
    if not streams or len(streams) != len(step.out_rows):
        raise ValueError(f"{len(streams)} streams for {len(step.out_rows)} rows that want logits")
    last = {sequence: row for row, sequence in enumerate(step.sequences)}
    goes_on = set()
    for stream, row in zip(streams, step.out_rows, strict=True):
        sequence, position = step.sequences[row], step.positions[row]
        if stream.tokens < 1:
            raise ValueError(f"a stream of {stream.tokens} tokens")
        check_tokens(stream.draw, vocabulary)
        if stream.tokens == 1:
            continue
        if last[sequence] != row or sequence in goes_on:
            raise ValueError(f"row {row} cannot go on: not the last of its sequence, or the second that does")
        goes_on.add(sequence)
        room = len(step.block_table[sequence]) * BLOCK
        if position + stream.tokens > room:
            raise ValueError(
                f"{stream.tokens} tokens after position {position}: the blocks hold {room} positions"
            )
        if stream.drafting:
            _check_drafting(stream, step.tokens[row], vocabulary)


def _check_drafting(stream: Stream, anchor: int, vocabulary: int) -> None:
    drafting = stream.drafting
    assert drafting
    if not drafting.history or drafting.history[-1] != anchor:
        raise ValueError(f"the history of a stream ends with the token of its row, {anchor}")
    if drafting.most < 0:
        raise ValueError(f"a block of {drafting.most} drafts")
    for text in (drafting.history, *drafting.corpus):
        _check_range(text, vocabulary)


def check_tokens(how: Draw, vocabulary: int) -> None:
    """Raise `ValueError` for a token in ``how`` that there is not."""
    _check_range((*how.prompt, *how.output, *how.logit_bias), vocabulary)


def _check_range(tokens: Sequence[int], vocabulary: int) -> None:
    for token in (min(tokens, default=0), max(tokens, default=0)):
        if not 0 <= token < vocabulary:
            raise ValueError(f"token {token} is out of range")
