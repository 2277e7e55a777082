"""Prefill and decode speed of the engine beside llama.cpp and transformers: one file, one run, interleaved.

    python benchmarks/decode.py --model qwen2.5-coder-1.5b

Every contestant is a process of its own, so that its peak memory is its own; they take turns, so that a noisy
machine is equally unfair to all. Medians of ``--rounds`` turns; ratios are against llama.cpp. Needs the extra
``bench`` (`pip install -e '.[bench]'`: llama-cpp-python is built from source, about a quarter of an hour).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

WORKERS = Path(__file__).with_name("decode_workers.py")
PEERS = ("llama.cpp", "transformers", "ultra-reference", "ultra")


@dataclass(slots=True)
class Contestant:
    """One process that answers ``prefill N`` and ``decode N`` with seconds."""

    name: str
    process: subprocess.Popen[str]
    load_s: float = 0.0
    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    peak_mb: int = 0

    @classmethod
    def start(cls, name: str, path: Path, threads: int) -> Contestant:
        command = [sys.executable, str(WORKERS), name, str(path), str(threads)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        contestant = cls(name, process)
        contestant.load_s = contestant.ask("load")["seconds"]
        return contestant

    def ask(self, command: str, count: int = 0) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        print(command, count, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} died; its own words are above")
        answer: dict[str, Any] = json.loads(line)
        self.peak_mb = answer["peak_mb"]
        return answer

    def turn(self, prompt: int, tokens: int) -> None:
        self.prefill.append(prompt / self.ask("prefill", prompt)["seconds"])
        self.decode.append(tokens / self.ask("decode", tokens)["seconds"])


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    from ultra_engine.weights.hub import resolve

    path = resolve(args.model)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    contestants = []
    console = Console(stderr=True)
    with Progress(console=console) as progress:
        task = progress.add_task("loading", total=len(args.peers) * (args.rounds + 1))
        for name in args.peers:
            contestants.append(Contestant.start(name, path, args.threads))
            progress.advance(task)
        for number in range(args.rounds):
            for contestant in contestants:
                progress.update(task, description=f"round {number + 1}: {contestant.name}")
                contestant.turn(args.prompt, args.tokens)
                progress.advance(task)
    for contestant in contestants:
        contestant.process.communicate("")
    report = _report(args, path, contestants)
    Console(width=110).print(_table(args, report))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(report, indent=1) + "\n")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prefill (default 512)")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of the decode (default 32)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    return parser.parse_args(argv)


def _report(args: argparse.Namespace, path: Path, contestants: list[Contestant]) -> dict[str, Any]:
    return {
        "model": args.model,
        "file_mb": path.stat().st_size // 10**6,
        "prompt": args.prompt,
        "tokens": args.tokens,
        "rounds": args.rounds,
        "threads": args.threads,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, {_cpu()}",
        "peers": {
            c.name: {
                "load_s": round(c.load_s, 2),
                "prefill_tps": round(statistics.median(c.prefill), 2),
                "decode_tps": round(statistics.median(c.decode), 2),
                "prefill_all": [round(x, 2) for x in c.prefill],
                "decode_all": [round(x, 2) for x in c.decode],
                "peak_mb": c.peak_mb,
            }
            for c in contestants
        },
    }


def _cpu() -> str:
    """The instruction sets that matter here, as PyTorch sees them."""
    import torch

    return f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def _table(args: argparse.Namespace, report: dict[str, Any]) -> Table:
    title = f"{args.model}, {report['file_mb']} MB, {args.threads} threads, medians of {args.rounds}"
    table = Table(title=title, caption=report["machine"])
    table.add_column("")
    for column in ("load s", f"prefill {args.prompt} tok/s", "ratio", "decode tok/s", "ratio", "peak MB"):
        table.add_column(column, justify="right")
    base = report["peers"].get("llama.cpp")
    for name, row in report["peers"].items():
        ratios = [f"{row[k] / base[k]:.2f}" if base else "" for k in ("prefill_tps", "decode_tps")]
        figures = (f"{row['prefill_tps']:.1f}", ratios[0], f"{row['decode_tps']:.1f}", ratios[1])
        table.add_row(name, f"{row['load_s']:.1f}", *figures, str(row["peak_mb"]))
    return table


if __name__ == "__main__":
    main()
