"""One sequence on an executor: the tokens whose KV is in the cache, prefill in chunks, decode one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from ultra_kernels.program import BLOCK
from ultra_kernels.step import Executor, Step

Logits = npt.NDArray[np.float32]
Stop = Callable[[], bool]

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

    def truncate(self, length: int) -> None:
        """Forget everything from position ``length`` on."""
        del self.tokens[length:]
        self._chunked = min(self._chunked, length)

    def _step(self, tokens: Sequence[int], stop: Stop) -> Logits:
        start, rows = len(self.tokens), len(tokens)
        assert start + rows <= self.context
        step = Step(
            tokens=tokens,
            positions=range(start, start + rows),
            sequences=[0] * rows,
            block_table=[range(-(-(start + rows) // BLOCK))],
            out_rows=[rows - 1],
        )
        logits = self._executor.run(step, stop)
        self.tokens.extend(tokens)
        return np.asarray(logits[0].numpy())
