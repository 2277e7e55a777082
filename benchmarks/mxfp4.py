"""What rounding to MXFP4 costs, with each way to choose the powers of two: errors of weights, and perplexity.

    python benchmarks/mxfp4.py --model smollm2-135m

Weights are random ones, and the MLPs of a GGUF file, unpacked. Perplexity is of the same file on the CPU
machine, as it is and with its MLPs rounded.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from perplexity import STEP, WINDOW, costs, text_of
from rich.console import Console
from rich.table import Table
from ultra_engine.convert.mxfp4 import Loss, Scale, encode
from ultra_engine.executors import create, tiles
from ultra_engine.models import lower, read_config
from ultra_engine.tokens.tokenizer import Tokenizer
from ultra_engine.weights.gguf import GGUFFile
from ultra_engine.weights.hub import resolve
from ultra_engine.weights.load import load_weights
from ultra_kernels.packing import mxfp4_from_pairs
from ultra_kernels.program import Program
from ultra_kernels.step import Packed, Sizes, Step

SCALES: tuple[Scale, ...] = ("max", "mse")


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    report: dict[str, Any] = {"model": args.model, "windows": args.windows, "relative_rms": {}}
    for name, matrices in _random():
        report["relative_rms"][name] = _errors(matrices)
    with GGUFFile.open(resolve(args.model)) as file:
        program = lower(read_config(file), tiles("cpu", None))
        weights = load_weights(file, program)
        mlps = [packed for name, packed in weights.items() if _is_mlp(name)]
        report["relative_rms"][f"MLPs of {args.model}"] = _errors([p.format.rows(p.data) for p in mlps])
        tokens = Tokenizer.from_gguf(file).encode(text_of(args.text))
        windows = [tokens[i : i + WINDOW] for i in range(0, len(tokens) - WINDOW, WINDOW)][: args.windows]
        found = {"as it is": _perplexity(program, weights, windows)}
        for scale in SCALES:
            rounded = {name: _rounded(p, scale) if _is_mlp(name) else p for name, p in weights.items()}
            found[scale] = _perplexity(program, rounded, windows)
        report["perplexity"] = found
    _show(report)
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--text", type=Path, help="a text file (default: modules of the standard library)")
    parser.add_argument("--windows", type=int, default=8, help=f"windows of {WINDOW} tokens (default 8)")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    return parser.parse_args(argv)


def _random() -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Matrices as training may leave them, with thin and with heavy tails."""
    torch.manual_seed(0)
    size = (2048, 2048)
    yield "normal", [torch.randn(size)]
    yield "normal, bfloat16", [torch.randn(size).bfloat16()]
    yield "uniform", [torch.rand(size) * 2 - 1]
    yield "Laplace", [torch.distributions.Laplace(0.0, 1.0).sample(size)]
    yield "Student t, 4 degrees", [torch.distributions.StudentT(4.0).sample(size)]


def _errors(matrices: Sequence[torch.Tensor]) -> dict[str, float]:
    return {
        scale: round(sum((encode(m, scale).loss for m in matrices), Loss()).relative_rms, 6)
        for scale in SCALES
    }


def _is_mlp(name: str) -> bool:
    return name.split(".")[-2] in ("gate", "up", "down")


def _rounded(packed: Packed, scale: Scale) -> Packed:
    encoded = encode(packed.format.rows(packed.data), scale)
    return mxfp4_from_pairs(encoded.weight, encoded.scale)


def _perplexity(program: Program, weights: Mapping[str, Packed], windows: Sequence[list[int]]) -> float:
    """Over the second half of each window."""
    options: dict[str, Any] = {"precision": None, "threads": None, "pin": False}
    sizes = Sizes(rows=STEP, blocks=WINDOW // 16)
    executor = create("cpu", program, weights, sizes, progress=lambda done, total: None, **options)
    found: list[float] = []
    for window in windows:
        parts = []
        for start in range(0, len(window), STEP):
            rows = window[start : start + STEP]
            where = range(start, start + len(rows))
            step = Step(rows, where, [0] * len(rows), [range(WINDOW // 16)], range(len(rows)))
            parts.append(executor.run(step).numpy())
        found += costs(np.concatenate(parts), window)
    executor.close()
    return round(math.exp(sum(found) / len(found)), 4)


def _show(report: dict[str, Any]) -> None:
    table = Table("relative RMS error", "max", "mse", "mse / max")
    for name, errors in report["relative_rms"].items():
        ratio = errors["mse"] / errors["max"]
        table.add_row(name, f"{errors['max']:.2%}", f"{errors['mse']:.2%}", f"{ratio:.3f}")
    found = report["perplexity"]
    title = f"{report['model']}: perplexity, {report['windows']} windows of {WINDOW} tokens"
    second = Table("MLPs", "perplexity", "", title=title)
    for name, value in found.items():
        second.add_row(name, f"{value:.4f}", f"{100 * (value / found['as it is'] - 1):+.2f} %")
    Console().print(table, second)


if __name__ == "__main__":
    main()
