"""One sample of a request: tokens drawn, turned into text that is safe to send, and the reason it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from ultra_kernels.sampling import BadLogits, Draw, log_softmax
from ultra_kernels.step import NOT_NUMBERS, Stream

from .formats.format import PLAIN, Reading
from .parts import Part, Parts
from .request import Delta, Finish, Request, SamplingParams, TokenLogprob
from .runner import Logits
from .tokens.stops import StopScanner
from .tokens.tokenizer import Tokenizer


class Sample:
    """`step` takes the logits of one position and gives the deltas to send, `take` a token that was drawn by
    the executor, as `stream` says; ``finish`` is set when it ends.

    Deltas never hold part of a character, of a stop string or of a mark of the model's format. One may have a
    token and no text yet; a second one is there only where one cannot say what comes after what.
    """

    def __init__(
        self,
        index: int,
        request: Request,
        seed: int,
        prompt: list[int],
        tokenizer: Tokenizer,
        limit: int,
        reading: Reading = PLAIN,
    ) -> None:
        """At most ``limit`` tokens in all."""
        self.index = index
        self.finish: Finish | None = None
        self.tokens: list[int] = []
        self._request, self._tokenizer, self._limit = request, tokenizer, limit
        self._prompt, self._seed = prompt, (seed + index) % 2**64
        self._decoder = tokenizer.decoder(reading.shown)
        self._stops = StopScanner(request.sampling.stop)
        self._scanner, self._parts = reading.scanner(), Parts()

    @property
    def stream(self) -> Stream:
        """How the executor is to go on."""
        return Stream(self._draw(), self._tokenizer.eog_ids, self._limit - len(self.tokens))

    def _draw(self) -> Draw:
        return draw_of(self._request.sampling, self._seed, self._prompt, self.tokens)

    def step(self, logits: Logits, draw: Callable[[Logits, Draw], int]) -> list[Delta]:
        """Draw one token. Nothing to send if the model ended without more text. Raises what ``draw`` does."""
        token = draw(logits, self._draw())
        return self.take(token, self._logprobs(logits, token))

    def take(self, token: int, logprobs: tuple[TokenLogprob, ...] | None = None) -> list[Delta]:
        """The same for a token that is drawn already, or for the word that none could be."""
        if token == NOT_NUMBERS:
            raise BadLogits
        if token in self._tokenizer.eog_ids:
            return self._end("stop")
        text, stopped = self._stops.push(self._decoder.push(token))
        offset = len(self.tokens)
        self.tokens.append(token)
        if stopped:
            self.finish = "stop"
        elif len(self.tokens) >= self._limit:
            self.finish = "length"
            text += self._flush()
        return self._deltas(text, Delta(self.index, offset, "", (token,), logprobs))

    def _end(self, finish: Finish) -> list[Delta]:
        self.finish = finish
        text = self._flush()
        whole = finish == "stop" and not self._stops.hit
        return self._deltas(text, Delta(self.index, len(self.tokens), "", ()), cut=not whole)

    def cancel(self) -> list[Delta]:
        """End now; what was held back as a possible stop string is text after all."""
        return self._end("cancelled")

    def _deltas(self, text: str, first: Delta, cut: bool = True) -> list[Delta]:
        """``text`` as deltas, of which ``first`` has the token. ``cut``: an end would come in the middle."""
        if self._scanner is None:
            return [replace(first, text=text)] if text or first.tokens else []
        events = self._scanner.push(text)
        if self.finish:
            events += self._scanner.finish(cut)
        parts = self._parts.of(events)
        if self.finish == "stop" and self._parts.calls:
            self.finish = "tool_calls"
        if not parts and first.tokens:
            parts = [Part()]
        after = Delta(self.index, first.offset + len(first.tokens), "", ())
        return [
            replace(delta, text=part.text, reasoning=part.reasoning, calls=tuple(part.calls))
            for delta, part in zip([first, *[after] * len(parts)], parts, strict=False)
        ]

    def _flush(self) -> str:
        """The text that was held back. A stop string can still complete in it: a cut character is text."""
        text, stopped = self._stops.push(self._decoder.flush())
        if not stopped:
            text += self._stops.flush()
        if self._stops.hit:
            self.finish = "stop"
        return text

    def _logprobs(self, logits: Logits, token: int) -> tuple[TokenLogprob, ...] | None:
        if not self._request.logprobs:
            return None
        scores = log_softmax(logits)
        likeliest = np.argsort(-scores, kind="stable")[: self._request.logprobs]
        piece = self._tokenizer.piece
        top = tuple((piece(int(id)), int(id), float(scores[id])) for id in likeliest)
        return (TokenLogprob(piece(token), token, float(scores[token]), top),)


def draw_of(params: SamplingParams, seed: int, prompt: list[int], output: list[int]) -> Draw:
    """How the token after ``prompt`` and ``output`` is drawn."""
    return Draw(
        seed=seed,
        position=len(prompt) + len(output),
        temperature=params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        logit_bias=params.logit_bias,
        prompt=prompt,
        output=tuple(output),  # as it is now: the list goes on growing
    )
