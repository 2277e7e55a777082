"""The contestants of `decode.py`: load a GGUF file, then time prefill and greedy decode on command.

decode_workers.py NAME FILE THREADS     reads "load 0", "prefill N", "decode N"; answers one JSON line each
"""

from __future__ import annotations

import functools
import json
import os
import random
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

CONTEXT = 2048
LOWEST, HIGHEST = 1000, 20000  # ordinary words in every vocabulary at hand


class Worker(Protocol):
    def prefill(self, tokens: list[int]) -> None:
        """Process a prompt from an empty context."""
        ...

    def decode(self, count: int) -> None:
        """``count`` greedy tokens after the last prompt; an end token does not end it."""
        ...


class Ultra:
    """The engine's runner on one of its executors."""

    def __init__(self, path: Path, threads: int, executor: str = "cpu") -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the server does
        from ultra_engine.model import Model

        self._runner = Model.load(path, context=CONTEXT, executor=executor, threads=threads).runner
        self._token = 0

    def prefill(self, tokens: list[int]) -> None:
        self._runner.truncate(0)
        self._token = int(self._runner.prefill(tokens, lambda: False, lambda done: None).argmax())

    def decode(self, count: int) -> None:
        from ultra_kernels.sampling import Draw
        from ultra_kernels.step import Stream

        def heard(token: int) -> bool:
            self._token = token
            return True

        self._runner.generate(self._token, Stream(Draw(), tokens=count), heard, lambda: False)


class LlamaCpp:
    """llama.cpp through llama-cpp-python's thin layer, its own defaults but for threads and context."""

    def __init__(self, path: Path, threads: int) -> None:
        import numpy
        from llama_cpp import Llama

        self._numpy = numpy
        self._llama = Llama(
            str(path), n_ctx=CONTEXT, n_threads=threads, n_threads_batch=threads, verbose=False
        )

    def _next(self) -> int:
        logits = self._llama._ctx.get_logits_ith(-1)
        return int(self._numpy.ctypeslib.as_array(logits, shape=(self._llama.n_vocab(),)).argmax())

    def prefill(self, tokens: list[int]) -> None:
        self._llama.reset()
        self._llama._ctx.kv_cache_clear()
        self._llama.eval(tokens)
        self._next()

    def decode(self, count: int) -> None:
        for _ in range(count):
            self._llama.eval([self._next()])
        self._next()


class Transformers:
    """transformers on the same file by its own GGUF loader, in the dtype that it says is fastest for one."""

    def __init__(self, path: Path, threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, local_files_only=True
        ).eval()
        self._cache: Any = None
        self._token: Any = None

    def _step(self, tokens: Any) -> None:
        with self._torch.inference_mode():
            out = self._model(tokens, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache, self._token = out.past_key_values, out.logits[:, -1:].argmax(-1)

    def prefill(self, tokens: list[int]) -> None:
        self._cache = None
        self._step(self._torch.tensor([tokens]))

    def decode(self, count: int) -> None:
        for _ in range(count):
            self._step(self._token)


WORKERS: dict[str, Callable[[Path, int], Worker]] = {
    "ultra": Ultra,
    "ultra-reference": functools.partial(Ultra, executor="reference"),
    "llama.cpp": LlamaCpp,
    "transformers": Transformers,
}


def main(name: str, path: str, threads: str) -> None:
    warnings.simplefilter("ignore")
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    answers = sys.stdout
    sys.stdout = sys.stderr  # libraries may print what they like
    worker: Worker | None = None
    for line in sys.stdin:
        command, count = line.split()
        tokens = random.Random(1).choices(range(LOWEST, HIGHEST), k=int(count))
        started = time.perf_counter()
        if command == "load":
            worker = WORKERS[name](Path(path), int(threads))
        elif command == "prefill":
            assert worker
            worker.prefill(tokens)
        else:
            assert worker and command == "decode"
            worker.decode(int(count))
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"seconds": seconds, "peak_mb": peak}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
