"""A model that is ready to run: tokenizer, chat template, and a runner over an executor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from ultra_kernels.program import BLOCK, Program
from ultra_kernels.reference import PRECISIONS, ReferenceExecutor
from ultra_kernels.step import Sizes

from .errors import ModelError
from .models import ModelConfig, lower, read_config
from .request import Request
from .runner import CHUNK, Runner
from .tokens.prompt import encode_prompt
from .tokens.template import ChatTemplate
from .tokens.tokenizer import Tokenizer
from .weights.gguf import GGUFFile
from .weights.load import load_weights

DEFAULT_PRECISION = "bfloat16"

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
    parameters: int
    load_ms: float
    _file: GGUFFile

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        context: int | None = None,
        precision: str = DEFAULT_PRECISION,
        threads: int | None = None,
        progress: LoadProgress = lambda done, total: None,
    ) -> Model:
        """Load a GGUF file for the reference executor.

        Raises `ModelFileError`, `UnsupportedModel`, or `ModelError` when memory is too small or ``context``
        exceeds the model's. ``progress`` gets (weights done, weights in all).
        """
        started = time.monotonic()
        if threads:
            torch.set_num_threads(threads)
        file = GGUFFile.open(path)
        try:
            config = read_config(file)
            positions = _context(config, context)
            tokenizer = Tokenizer.from_gguf(file)
            program = lower(config)
            weights = load_weights(file, program)
            parameters = sum(packed.shape[0] * packed.shape[1] for packed in weights.values())
            _check_memory(program, precision)
            sizes = Sizes(rows=CHUNK, blocks=-(-positions // BLOCK))

            def unpacked(done: int, total: int) -> None:
                if done % RELEASE_EVERY == 0 or done == total:
                    file.release()  # what is unpacked is not needed twice in memory
                progress(done, total)

            executor = ReferenceExecutor(program, weights, sizes, precision, unpacked)
            template = ChatTemplate.from_gguf(file)
        except BaseException:
            file.close()
            raise
        load_ms = (time.monotonic() - started) * 1000
        return cls(config, tokenizer, template, Runner(executor, positions), parameters, load_ms, file)

    def encode(self, request: Request) -> list[int]:
        """The prompt of ``request`` as token ids. Raises `RequestError`."""
        return encode_prompt(
            self.tokenizer,
            self.template,
            prompt=request.prompt,
            messages=request.messages,
            tokens=request.tokens,
        )

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _context(config: ModelConfig, wanted: int | None) -> int:
    if wanted is None:
        return min(config.context, MAX_CONTEXT)
    if not 2 <= wanted <= config.context:
        raise ModelError(f"context {wanted}: {config.name} takes 2 to {config.context} tokens")
    return wanted


def _check_memory(program: Program, precision: str) -> None:
    """Say so before the machine starts to swap."""
    size = PRECISIONS[precision].itemsize
    need = sum(size * int(b.shape[0]) * int(b.shape[-1]) for b in program.weights() if len(b.shape) == 2)
    free = psutil.virtual_memory().available
    if need > free:
        hint = "; try --precision bfloat16" if precision == "float32" else "; try a smaller model"
        raise ModelError(
            f"the weights need {need / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free{hint}"
        )
