"""One sequence on an executor: the tokens whose KV is in the cache, prefill in chunks, decode one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from ultra_kernels.drafting import Drafting
from ultra_kernels.program import BLOCK
from ultra_kernels.sampling import Draw
from ultra_kernels.step import Executor, Step, Stream, Took

Logits = npt.NDArray[np.float32]
Stop = Callable[[], bool]

DRAFTS = 31
"""Drafted tokens of a block at most: what is worth while is for the policy to say."""

CHUNK = 128
"""Rows of a prefill step: enough to multiply well, few enough that a cancel is seen soon."""


class Runner:
    """``tokens`` always names exactly the positions whose KV is valid, also after a step that was stopped.

    On an executor that is not batch-invariant the last bits of a row depend on how many rows its step had:
    libraries choose their kernels by shape. So that a prompt gives the same text whatever ran before it,
    prompts are then cut at multiples of `CHUNK`, and only KV that whole chunks left behind is used again.
    """

    def __init__(self, executor: Executor, context: int) -> None:
        self._executor, self.context = executor, context
        self._grain = 1 if executor.batch_invariant else CHUNK
        self.tokens: list[int] = []
        self._chunked = 0  # leading positions that whole chunks computed

    def shared(self, prompt: Sequence[int]) -> int:
        """Tokens of ``prompt`` whose KV the last request left behind. The last one is never among them: its
        logits are wanted."""
        held = self._chunked if self._grain > 1 else len(self.tokens)
        limit = min(held, len(prompt) - 1)
        same = next((i for i in range(limit) if self.tokens[i] != prompt[i]), limit)
        return same // self._grain * self._grain

    def prefill(self, prompt: Sequence[int], stop: Stop, progress: Callable[[int], None]) -> Logits:
        """Logits after the last token of ``prompt``, float32 [vocabulary]; ``progress`` gets the tokens done.

        Raises `Stopped`.
        """
        self.truncate(self.shared(prompt))
        logits: Logits | None = None
        while (start := len(self.tokens)) < len(prompt):
            logits = self._step(prompt[start : start + CHUNK], stop)
            self._chunked = len(self.tokens) // CHUNK * CHUNK
            progress(len(self.tokens))
        assert logits is not None
        return logits

    def decode(self, token: int, stop: Stop) -> Logits:
        """Logits after one more token. Raises `Stopped`."""
        return self._step([token], stop)

    def draw(self, logits: Logits, how: Draw) -> int:
        """The token that ``how`` takes. Raises `BadLogits`."""
        return self._executor.draw(logits, how)

    def generate(
        self, token: int, stream: Stream, heard: Callable[[Took], bool], stop: Stop, drafts: bool = True
    ) -> None:
        """Decode on from ``token`` until ``stream`` ends, in one call of the executor.

        ``drafts`` are taken from the text itself, unless a row's result could depend on them.
        ``heard`` gets what each round took, and ends the call by False. Raises `Stopped`.
        """
        fed = [token]

        def done(took: Sequence[Took]) -> bool:
            nonlocal fed
            # The last token has no KV yet, and drafts that were wrong have left theirs behind it.
            self.tokens += fed[-1:]
            self.tokens += took[0].tokens[:-1]
            fed = list(took[0].tokens)
            return heard(took[0])

        if drafts and self._executor.batch_invariant:
            stream = replace(stream, drafting=Drafting([*self.tokens, token], most=DRAFTS))
        self._executor.generate(self._rows([token], stream.tokens), [stream], done, stop)

    def truncate(self, length: int) -> None:
        """Forget everything from position ``length`` on."""
        del self.tokens[length:]
        self._chunked = min(self._chunked, length)

    def _step(self, tokens: Sequence[int], stop: Stop) -> Logits:
        logits = self._executor.run(self._rows(tokens), stop)
        self.tokens.extend(tokens)
        return np.asarray(logits[0].numpy())

    def _rows(self, tokens: Sequence[int], rounds: int = 1) -> Step:
        """The step of ``tokens``, with blocks for so many rounds."""
        start, rows = len(self.tokens), len(tokens)
        end = start + rows + rounds - 1
        assert end <= self.context
        return Step(
            tokens=tokens,
            positions=range(start, start + rows),
            sequences=[0] * rows,
            block_table=[range(-(-end // BLOCK))],
            out_rows=[rows - 1],
        )
