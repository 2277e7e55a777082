"""Several rounds of one call: which step comes after the tokens of the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .program import BLOCK
from .sampling import Draw
from .step import ENDED, NOT_NUMBERS, Step, Stream


class Rounds:
    """The state between rounds. ``step`` and ``draws`` are what runs next; `take` moves on.

    Raises `ValueError` as `check` does.
    """

    def __init__(self, step: Step, streams: Sequence[Stream], vocabulary: int) -> None:
        check(step, streams, vocabulary)
        self.step = step
        self._streams = streams
        self._going = list(range(len(streams)))
        self._outputs: list[list[int]] = [[] for _ in streams]

    @property
    def draws(self) -> list[Draw]:
        """How the rows of ``step.out_rows`` are drawn."""
        return [self._draw(index) for index in self._going]

    def _draw(self, index: int) -> Draw:
        how, mine = self._streams[index].draw, self._outputs[index]
        return replace(how, position=how.position + len(mine), output=[*how.output, *mine])

    def take(self, drawn: Sequence[int]) -> list[int]:
        """The tokens that ``step`` gave, one for each of its ``out_rows``; returns one for each stream."""
        tokens = [ENDED] * len(self._streams)
        rows, going = self.step.out_rows, []
        for index, row, token in zip(self._going, rows, drawn, strict=True):
            tokens[index] = token
            self._outputs[index].append(token)
            stream = self._streams[index]
            ended = token == NOT_NUMBERS or token in stream.ends
            if not ended and len(self._outputs[index]) < stream.tokens:
                going.append((index, row))
        self._going = [index for index, _ in going]
        self.step = Step(
            tokens=[tokens[index] for index in self._going],
            positions=[self.step.positions[row] + 1 for _, row in going],
            sequences=[self.step.sequences[row] for _, row in going],
            block_table=self.step.block_table,
            out_rows=range(len(going)),
        )
        return tokens

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


def check_tokens(how: Draw, vocabulary: int) -> None:
    """Raise `ValueError` for a token in ``how`` that there is not."""
    named = (*how.prompt, *how.output, *how.logit_bias)
    for token in (min(named, default=0), max(named, default=0)):
        if not 0 <= token < vocabulary:
            raise ValueError(f"token {token} is out of range")
