"""Perplexity of one text under one GGUF file: the CPU machine, exact float32, and llama.cpp.

    python benchmarks/perplexity.py --model smollm2-135m

All three read the same tokens, a window at a time, and score the second half of each, as llama.cpp's own tool
does. What int8 activations and float16 KV cost is the difference to the reference executor in float32.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

WINDOW, STEP = 512, 128

Logits = npt.NDArray[np.float32]


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    from ultra_engine.tokens.tokenizer import Tokenizer
    from ultra_engine.weights.gguf import GGUFFile
    from ultra_engine.weights.hub import resolve

    path = resolve(args.model)
    tokenizer = Tokenizer.from_gguf(GGUFFile.open(path))
    tokens = tokenizer.encode(text_of(args.text))
    windows = [tokens[i : i + WINDOW] for i in range(0, len(tokens) - WINDOW, WINDOW)][: args.windows]
    contestants = {
        "ultra": lambda window: _ultra(path, window, "cpu", None),
        "ultra-reference float32": lambda window: _ultra(path, window, "reference", "float32"),
        "llama.cpp": lambda window: _llama(path, window),
    }
    report: dict[str, Any] = {"model": args.model, "windows": len(windows), "perplexity": {}}
    with Progress(console=Console(stderr=True)) as progress:
        for name, logits in contestants.items():
            found = [
                cost
                for window in progress.track(windows, description=name)
                for cost in costs(logits(window), window)
            ]
            report["perplexity"][name] = round(math.exp(sum(found) / len(found)), 4)
    _show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--text", type=Path, help="a text file (default: modules of the standard library)")
    parser.add_argument("--windows", type=int, default=16, help=f"windows of {WINDOW} tokens (default 16)")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    return parser.parse_args(argv)


def text_of(path: Path | None) -> str:
    """The text, or a fixed choice of the standard library's sources, which every machine has."""
    if path:
        return path.read_text()
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "\n".join(file.read_text() for file in random.Random(7).sample(files, 12))


def costs(logits: Logits, window: list[int]) -> Iterator[float]:
    """-log p of the tokens in the second half; logits [len(window), vocabulary]."""
    for position in range(len(window) // 2, len(window) - 1):
        scores = logits[position].astype(np.float64)
        top = scores.max()
        yield float(top + np.log(np.exp(scores - top).sum()) - scores[window[position + 1]])


_executors: dict[str, Any] = {}


def _ultra(path: Path, window: list[int], name: str, precision: str | None) -> Logits:
    from ultra_engine.executors import create, tiles
    from ultra_engine.models import lower, read_config
    from ultra_engine.weights.gguf import GGUFFile
    from ultra_engine.weights.load import load_weights
    from ultra_kernels.step import Sizes, Step

    if name not in _executors:
        file = GGUFFile.open(path)
        program = lower(read_config(file), tiles(name, None))
        options: dict[str, Any] = {"precision": precision, "threads": None, "pin": False}
        sizes = Sizes(rows=STEP, blocks=WINDOW // 16)
        _executors[name] = create(
            name, program, load_weights(file, program), sizes, progress=lambda done, total: None, **options
        )
    parts = []
    for start in range(0, len(window), STEP):
        rows = window[start : start + STEP]
        where = range(start, start + len(rows))
        step = Step(rows, where, [0] * len(rows), [range(WINDOW // 16)], range(len(rows)))
        parts.append(_executors[name].run(step).numpy())
    return np.concatenate(parts)


def _llama(path: Path, window: list[int]) -> Logits:
    from llama_cpp import Llama

    if "llama.cpp" not in _executors:
        threads = os.cpu_count()
        _executors["llama.cpp"] = Llama(
            str(path),
            n_ctx=WINDOW,
            n_threads=threads,
            n_threads_batch=threads,
            logits_all=True,
            verbose=False,
        )
    llama = _executors["llama.cpp"]
    llama.reset()
    llama._ctx.kv_cache_clear()
    llama.eval(window)
    return np.array(llama.scores[: len(window)], dtype=np.float32)


def _show(report: dict[str, Any]) -> None:
    exact = report["perplexity"]["ultra-reference float32"]
    title = f"{report['model']}: perplexity, {report['windows']} windows of {WINDOW} tokens"
    table = Table("", "perplexity", "against float32", title=title)
    for name, value in report["perplexity"].items():
        table.add_row(name, f"{value:.4f}", f"{100 * (value / exact - 1):+.2f} %")
    Console().print(table)


if __name__ == "__main__":
    main()
