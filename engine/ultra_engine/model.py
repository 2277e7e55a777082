"""A model that is ready to run: tokenizer, chat template, and a runner over an executor."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ultra_kernels.program import BLOCK
from ultra_kernels.step import Executor, Sizes

from .errors import ModelError
from .executors import check_threads, choose, create, tiles
from .formats.format import OPENED_TAIL, PLAIN, Format, Reading
from .formats.tools import Tools
from .models import ModelConfig, lower, read_config
from .request import Request
from .runner import CHUNK, Runner
from .tokens.prompt import encode_prompt
from .tokens.template import ChatTemplate
from .tokens.tokenizer import Tokenizer
from .weights.gguf import GGUFFile
from .weights.load import load_weights

MAX_CONTEXT = 32768
"""Positions of KV that are reserved unless the user asks for more; memory is touched only as it is used."""

RELEASE_EVERY = 16
"""Weights after which the pages of the file are given back while loading."""

LoadProgress = Callable[[int, int], None]


@dataclass(slots=True)
class Model:
    """Owned by the worker thread, except `encode`, which touches only the tokenizer and the template."""

    config: ModelConfig
    tokenizer: Tokenizer
    template: ChatTemplate
    runner: Runner
    executor: str
    """Which one runs it: "cpu" or "reference"."""
    parameters: int
    load_ms: float
    _file: GGUFFile
    _executor: Executor

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        context: int | None = None,
        executor: str = "auto",
        precision: str | None = None,
        threads: int | None = None,
        pin: bool = False,
        progress: LoadProgress = lambda done, total: None,
    ) -> Model:
        """Load a GGUF file. ``executor`` and ``precision``: see `executors.choose`.

        Raises `ModelFileError`, `UnsupportedModel`, or `ModelError` when memory is too small, ``context``
        exceeds the model's or the executor cannot be had, or not with so many threads. ``progress`` gets
        (weights done, weights in all).
        """
        started = time.monotonic()
        name = choose(executor, precision)
        check_threads(name, threads, pin)
        file, pool = GGUFFile.open(path), ThreadPoolExecutor(1, thread_name_prefix="ultra-load")
        made: Executor | None = None
        try:
            config = read_config(file)
            positions = _context(config, context)
            reading = pool.submit(Tokenizer.from_gguf, file)  # while the weights are put in order
            program = lower(config, tiles(name, threads))
            weights = load_weights(file, program)
            parameters = sum(packed.shape[0] * packed.shape[1] for packed in weights.values())
            template = ChatTemplate.from_gguf(file)
            sizes = Sizes(rows=CHUNK, blocks=-(-positions // BLOCK))

            def loaded(done: int, total: int) -> None:
                if done % RELEASE_EVERY == 0 or done == total:
                    file.release()  # what is unpacked or packed is not needed twice in memory
                progress(done, total)

            made = create(
                name, program, weights, sizes, precision=precision, threads=threads, pin=pin, progress=loaded
            )
            tokenizer = reading.result()
        except BaseException:
            if made:
                made.close()
            file.close()
            raise
        finally:
            pool.shutdown()
        load_ms = (time.monotonic() - started) * 1000
        runner = Runner(made, positions)
        return cls(config, tokenizer, template, runner, name, parameters, load_ms, file, made)

    def encode(self, request: Request) -> list[int]:
        """The prompt of ``request`` as token ids. Raises `RequestError`."""
        return encode_prompt(
            self.tokenizer,
            self.template,
            prompt=request.prompt,
            messages=request.messages,
            tokens=request.tokens,
            tools=request.tools,
            reasoning=request.reasoning,
        )

    @property
    def format(self) -> Format:
        """How its answers are to be read."""
        return Format.of(self.template.source, self.tokenizer.control_ids)

    def reading(self, request: Request, prompt: list[int]) -> Reading:
        """How the answers to ``request`` are to be read; those to raw prompts are text and nothing else."""
        if request.messages is None:
            return PLAIN
        tail = self.tokenizer.decode(prompt[-OPENED_TAIL:], skip_special=False)
        return Reading(self.format, Tools(request.tools), tail)

    def close(self) -> None:
        """End the executor's threads, let go of the file."""
        self._executor.close()
        self._file.close()


def _context(config: ModelConfig, wanted: int | None) -> int:
    if wanted is None:
        return min(config.context, MAX_CONTEXT)
    if not 2 <= wanted <= config.context:
        raise ModelError(f"context {wanted}: {config.name} takes 2 to {config.context} tokens")
    return wanted
