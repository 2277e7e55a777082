"""One sample of a request: tokens drawn, turned into text that is safe to send, and the reason it ended."""

from __future__ import annotations

import numpy as np

from .request import Delta, Finish, Request, TokenLogprob
from .runner import Logits
from .sampling import Sampler, log_softmax
from .tokens.stops import StopScanner
from .tokens.tokenizer import Tokenizer


class Sample:
    """``step`` takes the logits of one position and gives the delta to send; ``finish`` is set when it ends.

    Deltas never hold part of a character or of a stop string. A delta may have a token and no text yet.
    """

    def __init__(
        self, index: int, request: Request, seed: int, prompt: list[int], tokenizer: Tokenizer
    ) -> None:
        self.index = index
        self.finish: Finish | None = None
        self.count = 0
        self.last: int | None = None
        self._request, self._tokenizer, self._prompt_length = request, tokenizer, len(prompt)
        self._sampler = Sampler(request.sampling, (seed + index) % 2**64, prompt)
        self._decoder = tokenizer.decoder()
        self._stops = StopScanner(request.sampling.stop)

    def step(self, logits: Logits, limit: int) -> Delta | None:
        """Draw one token; at most ``limit`` tokens in all. None when the model ended without more text."""
        token = self._sampler.draw(logits, self._prompt_length + self.count)
        if token in self._tokenizer.eog_ids:
            return self._end("stop")
        text, stopped = self._stops.push(self._decoder.push(token))
        offset, self.count, self.last = self.count, self.count + 1, token
        if stopped:
            self.finish = "stop"
        elif self.count >= limit:
            self.finish = "length"
            text += self._flush()
        return Delta(self.index, offset, text, (token,), self._logprobs(logits, token))

    def _end(self, finish: Finish) -> Delta | None:
        self.finish = finish
        text = self._flush()
        return Delta(self.index, self.count, text, ()) if text else None

    def cancel(self) -> Delta | None:
        """End now; what was held back as a possible stop string is text after all."""
        return self._end("cancelled")

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
