"""What drafts from the text bring, by task, beside the same engine without and llama.cpp with and without.

    python benchmarks/speculation.py --model qwen2.5-coder-1.5b

Every contestant is a process of its own; they take turns at the same prompts, so that a noisy machine is
equally unfair to all. Tokens a second of the decode alone, prompts not counted; medians over the items of a
task. The two forms of the engine must give the same tokens, or it ends with an error. Needs the extra
``bench``.
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
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from speculation_tasks import Task, tasks

KINDS = ("rewrite", "fix", "write", "random")
CONTESTANTS = ("ultra", "ultra-plain", "llama.cpp", "llama.cpp-lookup")
CONTEXT = 4096


def work(name: str, path: str, threads: int) -> None:
    """A contestant: reads a JSON task a line, answers with its seconds, tokens and steps."""
    run = _ultra(path, threads, name == "ultra") if name.startswith("ultra") else _llama(path, threads, name)
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def _ultra(path: str, threads: int, drafts: bool) -> Any:
    import queue

    from ultra_engine.engine import Engine
    from ultra_engine.request import Delta, Done, Failed, Request, SamplingParams

    engine = Engine.open(path, context=CONTEXT, threads=threads)

    def run(task: dict[str, Any]) -> dict[str, Any]:
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        sampling = SamplingParams(temperature=task["temperature"], seed=1)
        request = Request(
            "r", tokens=task["tokens"], sampling=sampling, max_tokens=task["most"], drafts=drafts
        )
        engine.submit(request, events.put)
        tokens: list[int] = []
        while not isinstance(event := events.get(), (Done, Failed)):
            tokens += event.tokens if isinstance(event, Delta) else ()
        assert isinstance(event, Done), event
        stats = event.stats
        return {
            "seconds": stats.decode_ms / 1e3,
            "tokens": tokens,
            "steps": stats.steps,
            "hist": stats.accepts,
        }

    return run


def _llama(path: str, threads: int, name: str) -> Any:
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    draft = LlamaPromptLookupDecoding(num_pred_tokens=10) if name.endswith("lookup") else None
    llama = Llama(
        path,
        n_ctx=CONTEXT,
        n_threads=threads,
        n_threads_batch=threads,
        logits_all=draft is not None,  # its lookup decoding cannot do without
        verbose=False,
        draft_model=draft,
    )

    def run(task: dict[str, Any]) -> dict[str, Any]:
        llama.reset()
        tokens: list[int] = []
        started = 0.0
        for token in llama.generate(task["tokens"], temp=task["temperature"]):
            if not tokens:
                started = time.perf_counter()
            if token == llama.token_eos() or len(tokens) == task["most"]:
                break
            tokens.append(token)
        return {"seconds": time.perf_counter() - started, "tokens": tokens, "steps": 0, "hist": []}

    return run


class Contestant:
    def __init__(self, name: str, path: Path, threads: int) -> None:
        self.name = name
        command = [
            sys.executable,
            __file__,
            "--worker",
            name,
            "--model",
            str(path),
            "--threads",
            str(threads),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, task: Task, tokens: list[int]) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        asked = {"tokens": tokens, "temperature": task.temperature, "most": task.most}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} has ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def measure(path: Path, threads: int, kinds: list[str], items: int) -> list[dict[str, Any]]:
    """A record for every task: each contestant's rate, and the engine's accept length."""
    from ultra_engine.tokens.prompt import encode_prompt
    from ultra_engine.tokens.template import ChatTemplate
    from ultra_engine.tokens.tokenizer import Tokenizer
    from ultra_engine.weights.gguf import GGUFFile

    file = GGUFFile.open(path)
    tokenizer, template = Tokenizer.from_gguf(file), ChatTemplate.from_gguf(file)
    contestants = [Contestant(name, path, threads) for name in CONTESTANTS]
    records = []
    asked = [task for kind in kinds for task in tasks(kind, items)]
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("tasks", total=len(asked))
        for task in asked:
            progress.update(bar, description=f"{task.kind}: {task.name}")
            tokens = list(task.tokens) or encode_prompt(
                tokenizer, template, messages=[{"role": "user", "content": task.message}]
            )
            records.append(_record(task, {each.name: each.run(task, tokens) for each in contestants}))
            progress.advance(bar)
    for each in contestants:
        each.close()
    return records


def _record(task: Task, answers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    ours, plain = answers["ultra"], answers["ultra-plain"]
    if ours["tokens"] != plain["tokens"]:
        raise SystemExit(f"{task.name}: drafts have changed the text")
    return {
        "kind": task.kind,
        "name": task.name,
        "tokens": len(ours["tokens"]),
        "accept": len(ours["tokens"]) / max(ours["steps"], 1),
        "hist": ours["hist"],
        "rates": {name: len(a["tokens"]) / a["seconds"] for name, a in answers.items() if a["seconds"]},
    }


def report(records: list[dict[str, Any]], console: Console) -> None:
    rates = [name.replace("llama.cpp", "llama").replace("ultra-plain", "plain") for name in CONTESTANTS]
    table = Table("task", "items", "tokens", "a step", *rates, "x llama", "x plain", title="tokens a second")
    for kind in dict.fromkeys(record["kind"] for record in records):
        own = [record for record in records if record["kind"] == kind]
        middle = {name: statistics.median(r["rates"].get(name, 0.0) for r in own) for name in CONTESTANTS}
        ratio = {
            peer: statistics.median(r["rates"]["ultra"] / r["rates"][peer] for r in own)
            for peer in ("llama.cpp", "ultra-plain")
        }
        table.add_row(
            *(kind, str(len(own)), f"{statistics.median(r['tokens'] for r in own):.0f}"),
            f"{statistics.median(r['accept'] for r in own):.2f}",
            *(f"{middle[name]:.1f}" for name in CONTESTANTS),
            *(f"{ratio[peer]:.2f}" for peer in ("llama.cpp", "ultra-plain")),
        )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="qwen2.5-coder-1.5b")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--tasks", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--items", type=int, default=10, help="of each task at most")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return work(args.worker, args.model, args.threads)
    from ultra_engine.weights.hub import resolve

    records = measure(resolve(args.model), args.threads, args.tasks, args.items)
    console = Console()
    console.print(f"{args.model}, {args.threads} threads, {platform.processor() or platform.machine()}")
    report(records, console)
    out = Path(__file__).parent / "results" / f"speculation-{Path(args.model).name}.json"
    out.write_text(
        json.dumps({"model": args.model, "threads": args.threads, "tasks": records}, indent=1) + "\n"
    )
    console.print(f"written to {out}")


if __name__ == "__main__":
    main()
