"""The contestants of `decode.py`: load a GGUF file, then do on command what is timed.

decode_workers.py NAME FILE THREADS     reads a command and a count a line, answers one JSON line each:
    load 0        prefill N     decode N        as in a chat: N prompt tokens, N greedy tokens after them
    rows N        one step of N tokens of one sequence that all want logits, after the prompt
    together N    one step of N sequences with a token each
    read N        N MB of memory
    idle N        nothing for N seconds; the answer is the processor time that it took
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

CONTEXT, SEQUENCES = 2048, 8
BEHIND = 128  # positions before the row or rows of a step
LOWEST, HIGHEST = 1000, 20000  # ordinary words in every vocabulary at hand


class Worker(Protocol):
    """A contestant; one that cannot do a thing raises `NotImplementedError`."""

    def prefill(self, tokens: list[int]) -> None:
        """Process a prompt from an empty context."""
        ...

    def decode(self, count: int) -> None:
        """``count`` greedy tokens after the last prompt; an end token does not end it."""
        ...

    def rows(self, count: int) -> None: ...

    def together(self, count: int) -> None: ...


class Ultra:
    """The engine's runner on one of its executors, with room for `SEQUENCES`."""

    def __init__(self, path: Path, threads: int, executor: str = "cpu") -> None:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the server does
        from ultra_engine.executors import create, tiles
        from ultra_engine.models import lower, read_config
        from ultra_engine.runner import CHUNK, Runner
        from ultra_engine.weights.gguf import GGUFFile
        from ultra_engine.weights.load import load_weights
        from ultra_kernels.program import BLOCK
        from ultra_kernels.step import Sizes

        self._file = GGUFFile.open(path)
        program = lower(read_config(self._file), tiles(executor, threads))
        self._executor = create(
            executor,
            program,
            load_weights(self._file, program),
            Sizes(CHUNK, (CONTEXT + SEQUENCES * 2 * BEHIND) // BLOCK, SEQUENCES),
            precision=None,
            threads=threads,
            pin=False,
            progress=lambda done, total: self._file.release() if done % 16 == 0 or done == total else None,
        )
        self._runner = Runner(self._executor, CONTEXT)
        self._token = 0

    def prefill(self, tokens: list[int]) -> None:
        self._runner.truncate(0)
        logits = self._runner.prefill(tokens, lambda: False, lambda done: None)
        self._token = int(logits.argmax())

    def decode(self, count: int) -> None:
        from ultra_kernels.sampling import Draw
        from ultra_kernels.step import Stream

        self._runner.generate(self._token, Stream(Draw(), tokens=count), lambda token: True, lambda: False)

    def rows(self, count: int) -> None:
        from ultra_kernels.step import Step

        where = range(BEHIND, BEHIND + count)
        blocks = [range(-(-where.stop // 16))]
        self._executor.run(Step(_tokens(count), where, [0] * count, blocks, range(count)))

    def together(self, count: int) -> None:
        from ultra_kernels.step import Step

        each = 2 * BEHIND // 16
        blocks = [range(CONTEXT // 16 + i * each, CONTEXT // 16 + (i + 1) * each) for i in range(count)]
        step = Step(_tokens(count), [BEHIND] * count, range(count), blocks, range(count))
        self._executor.run(step)


class Start:
    """The whole engine, as `ultra serve` makes it; the prompt's first token ends `prefill`."""

    def __init__(self, path: Path, threads: int) -> None:
        from ultra_engine.engine import Engine

        self._engine = Engine.open(str(path), context=CONTEXT, threads=threads)

    def prefill(self, tokens: list[int]) -> None:
        import threading

        from ultra_engine.request import Delta, Failed, Request, SamplingParams

        first = threading.Event()

        def hear(event: object) -> None:
            assert not isinstance(event, Failed), event
            if isinstance(event, Delta):
                first.set()

        sampling = SamplingParams(temperature=0.0)
        self._engine.submit(Request(id="first", tokens=tuple(tokens), sampling=sampling, max_tokens=4), hear)
        first.wait()


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

    def rows(self, count: int) -> None:
        self._llama._ctx.kv_cache_seq_rm(-1, BEHIND, -1)
        self._llama.n_tokens = BEHIND
        self._llama._batch.set_batch(batch=_tokens(count), n_past=BEHIND, logits_all=True)
        self._llama._ctx.decode(self._llama._batch)
        self._llama._ctx.get_logits_ith(-1)

    def together(self, count: int) -> None:
        raise NotImplementedError


class Transformers:
    """transformers on the same file by its own GGUF loader, in float32 or bfloat16."""

    def __init__(self, path: Path, threads: int, dtype: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=getattr(torch, dtype), local_files_only=True
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

    def rows(self, count: int) -> None:
        raise NotImplementedError

    def together(self, count: int) -> None:
        raise NotImplementedError


class Memory:
    """Reads memory as fast as the threads can, and computes next to nothing."""

    def __init__(self, path: Path, threads: int) -> None:
        import numpy
        from ultra_kernels.cpu import abi

        self._library, self._threads = abi.load(), threads
        self._data = numpy.ones(1 << 27, dtype=numpy.uint64)  # 1 GiB: no cache holds it

    def read(self, megabytes: int) -> None:
        self._library.ultra_cpu_read(self._data.ctypes.data, megabytes * 10**6 // 64 * 64, self._threads)


WORKERS: dict[str, Callable[[Path, int], Any]] = {
    "ultra": Ultra,
    "ultra-start": Start,
    "ultra-reference": functools.partial(Ultra, executor="reference"),
    "llama.cpp": LlamaCpp,
    "transformers": functools.partial(Transformers, dtype="float32"),
    "transformers-bf16": functools.partial(Transformers, dtype="bfloat16"),
    "memory": Memory,
}


def _tokens(count: int) -> list[int]:
    return random.Random(1).choices(range(LOWEST, HIGHEST), k=count)


def _idle(seconds: int) -> float:
    """Processor time of ``seconds`` seconds without work."""
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(seconds)
    return time.process_time() - before


def main(name: str, path: str, threads: str) -> None:
    warnings.simplefilter("ignore")
    os.environ |= {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    answers = sys.stdout
    sys.stdout = sys.stderr  # libraries may print what they like
    worker: Any = None
    for line in sys.stdin:
        command, word = line.split()
        count = int(word)
        given: Any = _tokens(count) if command == "prefill" else count
        started = time.perf_counter()
        seconds: float | None = None
        try:
            if command == "load":
                worker = WORKERS[name](Path(path), int(threads))
            elif command == "idle":
                seconds = _idle(count)
            else:
                getattr(worker, command)(given)
            seconds = seconds if command == "idle" else time.perf_counter() - started
        except NotImplementedError:
            pass
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps({"seconds": seconds, "peak_mb": peak}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
