"""One request on the runner, from prompt to terminal event."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ultra_kernels.step import Stopped

from .formats.format import PLAIN, Reading
from .request import Delta, Done, Finish, Prefill, Request, SampleDone, Sink, Stats
from .runner import Logits, Runner
from .sample import Sample
from .tokens.tokenizer import Tokenizer

Tell = Callable[[list[Delta]], bool]


class Generation:
    """Prefills once, then decodes the samples one after another on the same prefix.

    ``run`` returns the terminal event; everything before it goes to ``sink``. ``stats`` is up to date at all
    times, also when ``run`` raises.
    """

    def __init__(
        self,
        request: Request,
        prompt: list[int],
        seed: int,
        tokenizer: Tokenizer,
        submitted: float,
        reading: Reading = PLAIN,
    ) -> None:
        self._request, self._prompt, self._seed, self._tokenizer = request, prompt, seed, tokenizer
        self._reading = reading
        self._submitted, self._started = submitted, time.monotonic()
        self._first: float | None = None
        self._decode_started = 0.0
        self.stats = Stats(prompt_tokens=len(prompt), queue_ms=_ms(self._started - submitted))

    def run(self, runner: Runner, sink: Sink, stop: Callable[[], bool]) -> Done:
        """Generate until every sample has ended or ``stop`` says so."""
        finishes: list[Finish] = []
        try:
            logits = self._prefill(runner, sink, stop)
            for index in range(self._request.n):
                # The last prompt token's KV is in place, so each sample starts from the same logits.
                runner.truncate(len(self._prompt))
                finishes.append(self._sample(index, logits, runner, sink, stop))
                if finishes[-1] == "cancelled":
                    break
        except Stopped:
            finishes.append("cancelled")
        self._clock()
        finish: Finish = "cancelled" if "cancelled" in finishes else finishes[0]
        return Done(finish, self.stats, self._seed)

    def _prefill(self, runner: Runner, sink: Sink, stop: Callable[[], bool]) -> Logits:
        total, cached = len(self._prompt), runner.shared(self._prompt)
        self.stats = replace(self.stats, cached_tokens=cached)
        sink(Prefill(cached, total, cached))
        logits = runner.prefill(self._prompt, stop, lambda done: sink(Prefill(done, total, cached)))
        self._decode_started = time.monotonic()
        self.stats = replace(self.stats, prefill_ms=_ms(self._decode_started - self._started))
        return logits

    def _sample(
        self, index: int, logits: Logits, runner: Runner, sink: Sink, stop: Callable[[], bool]
    ) -> Finish:
        room = runner.context - len(self._prompt)
        limit = min(self._request.max_tokens or room, room)
        sample = Sample(index, self._request, self._seed, self._prompt, self._tokenizer, limit, self._reading)

        def tell(deltas: list[Delta]) -> bool:
            self._count(sum(len(delta.tokens) for delta in deltas))
            for delta in deltas:
                sink(delta)
            return sample.finish is None

        try:
            if tell(sample.step(logits, runner.draw)):
                self._decode(sample, runner, tell, stop)
        except Stopped:
            for delta in sample.cancel():
                sink(delta)
        assert sample.finish
        sink(SampleDone(index, sample.finish))
        return sample.finish

    def _decode(self, sample: Sample, runner: Runner, tell: Tell, stop: Callable[[], bool]) -> None:
        """To the end of the sample: in one call of the executor, or step by step where logits are wanted."""
        if self._request.logprobs:
            while tell(sample.step(runner.decode(sample.tokens[-1], stop), runner.draw)):
                pass
        else:
            last, stream = sample.tokens[-1], sample.stream
            runner.generate(last, stream, lambda token: tell(sample.take(token)), stop)

    def _count(self, tokens: int) -> None:
        if self._first is None and tokens:
            self._first = time.monotonic()
            self.stats = replace(self.stats, ttft_ms=_ms(self._first - self._submitted))
        self.stats = replace(
            self.stats, output_tokens=self.stats.output_tokens + tokens, steps=self.stats.steps + 1
        )

    def _clock(self) -> None:
        now = time.monotonic()
        decode = now - self._decode_started if self._decode_started else 0.0
        self.stats = replace(self.stats, decode_ms=_ms(decode), total_ms=_ms(now - self._submitted))


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
