"""Speed of the engine beside llama.cpp and transformers: one file, one run, interleaved.

    python benchmarks/decode.py --model qwen2.5-coder-1.5b

Every contestant is a process of its own, so that its peak memory is its own; they take turns, so that a noisy
machine is equally unfair to all. Medians of ``--rounds`` turns; ratios are against llama.cpp. In every round
memory is read as fast as the threads can: the roofline of a decode. Around the turns come the time from the
start of a process to its first token, a decode with another process on one of the cores, and idle threads.
Needs the extra ``bench`` (`pip install -e '.[bench]'`: llama-cpp-python is built from source, a quarter of an
hour).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import decode_report
from rich.console import Console
from rich.progress import Progress

WORKERS = Path(__file__).with_name("decode_workers.py")
PEERS = ("llama.cpp", "transformers", "transformers-bf16", "ultra-reference", "ultra")
STARTERS = {"ultra": "ultra-start", "llama.cpp": "llama.cpp"}
STEPS = (("rows", 1), ("rows", 4), ("rows", 8), ("together", 1), ("together", 8))
READ_MB = 1000
BUSY = "while True: pass"


@dataclass(slots=True)
class Contestant:
    """One process that answers commands of `decode_workers` with seconds."""

    name: str
    process: subprocess.Popen[str]
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    peak_mb: int = 0

    @classmethod
    def start(cls, name: str, path: Path, threads: int) -> Contestant:
        command = [sys.executable, str(WORKERS), name, str(path), str(threads)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        contestant = cls(name, process)
        contestant.ask("load")
        return contestant

    def ask(self, command: str, count: int = 0, key: str = "") -> None:
        """Have it done, and keep the seconds under ``key`` unless the contestant cannot do it."""
        assert self.process.stdin and self.process.stdout
        print(command, count, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} died; its own words are above")
        answer: dict[str, Any] = json.loads(line)
        self.peak_mb = answer["peak_mb"]
        if answer["seconds"] is not None:
            self.times[key or command].append(answer["seconds"])

    def turn(self, prompt: int, tokens: int) -> None:
        self.ask("prefill", prompt)
        self.ask("decode", tokens)
        for command, count in STEPS:
            for _ in range(3):
                self.ask(command, count, f"{command} {count}")

    def median(self, key: str) -> float | None:
        return statistics.median(self.times[key]) if self.times[key] else None

    def end(self) -> None:
        self.process.communicate("")


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments(argv)
    from ultra_engine.weights.hub import resolve

    path = resolve(args.model)
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    with Progress(console=Console(stderr=True)) as progress:
        starts = _starts(args, path, progress)
        contestants, memory = _turns(args, path, progress)
        busy = _busy(args, contestants, progress)
    for contestant in (*contestants, memory):
        contestant.end()
    report = _head(args, path) | {
        "read_gbps": round(READ_MB / 1e3 / (memory.median("read") or 1), 1),
        "peers": {c.name: decode_report.figures(c, args, path) for c in contestants},
        "first_token_s": {name: round(statistics.median(s), 2) for name, s in starts.items()},
        "decode_tps_beside_a_busy_process": busy,
    }
    decode_report.show(report, Console(width=110))
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
    args = parser.parse_args(argv)
    if args.prompt < 128:
        parser.error("--prompt: at least 128, behind which the steps of several rows are timed")
    return args


def _starts(args: argparse.Namespace, path: Path, progress: Progress) -> dict[str, list[float]]:
    """Seconds from the start of a process to the first token after a prompt of 32."""
    names = [name for name in args.peers if name in STARTERS]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in progress.track(range(args.rounds), description="from start to first token"):
        for name in names:
            began = time.perf_counter()
            contestant = Contestant.start(STARTERS[name], path, args.threads)
            contestant.ask("prefill", 32)
            seconds[name].append(time.perf_counter() - began)
            contestant.end()
    return seconds


def _turns(args: argparse.Namespace, path: Path, progress: Progress) -> tuple[list[Contestant], Contestant]:
    """The contestants after their turns, and the reader of memory."""
    task = progress.add_task("loading", total=len(args.peers) * (args.rounds + 1))
    contestants = []
    for name in args.peers:
        progress.update(task, description=f"loading {name}")
        contestants.append(Contestant.start(name, path, args.threads))
        progress.advance(task)
    memory = Contestant.start("memory", path, args.threads)
    for number in range(args.rounds):
        for contestant in contestants:
            progress.update(task, description=f"round {number + 1}: {contestant.name}")
            contestant.turn(args.prompt, args.tokens)
            memory.ask("read", READ_MB)
            progress.advance(task)
    return contestants, memory


def _busy(args: argparse.Namespace, contestants: list[Contestant], progress: Progress) -> dict[str, float]:
    """Tokens a second while another process takes one of the cores; and what idle threads take."""
    names = [c for c in contestants if c.name in ("ultra", "llama.cpp")]
    for contestant in names:
        contestant.ask("idle", 1)
    other = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        for _ in progress.track(range(args.rounds), description="beside a busy process"):
            for contestant in names:
                contestant.ask("prefill", 32, "busy prefill")
                contestant.ask("decode", args.tokens, "busy decode")
    finally:
        other.kill()
        other.wait()
    return {c.name: round(args.tokens / (c.median("busy decode") or 1), 2) for c in names}


def _head(args: argparse.Namespace, path: Path) -> dict[str, Any]:
    import torch

    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {torch.backends.cpu.get_cpu_capability()}"
    return {
        "model": args.model,
        "file_mb": path.stat().st_size // 10**6,
        "prompt": args.prompt,
        "tokens": args.tokens,
        "rounds": args.rounds,
        "threads": args.threads,
        "machine": f"{machine}, torch {torch.__version__}",
    }


if __name__ == "__main__":
    main()
