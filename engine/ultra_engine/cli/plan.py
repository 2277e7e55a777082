"""`ultra plan`: what a model would cost on GPUs that need not be there."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from ..plan.plan import Facts, Plan

ABOUT = """\
Arithmetic on a model's config.json; no weights are needed. It tells what a rank holds, what a step reads, and
how many tokens a second the GPUs' bandwidth allows at most. What is computed and what ranks tell each other
comes on top, so expect less: engines reach 20 to 50 % of it.

A block of N rows is verified in one step; at accept length A it yields A tokens. Rows choose experts
independently unless a line says otherwise."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand to the parser of `ultra`."""
    from ..plan.known import CONFIGS

    parser = commands.add_parser(
        "plan",
        help="what a model would cost on given GPUs",
        description=ABOUT,
        epilog=f"built in: {', '.join(CONFIGS)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a config.json, its folder, org/name in the cache, or below"
    )
    parser.add_argument("--gpus", required=True, metavar="NxGPU", help="8xH200, or 1xcustom:GB:TB/s")
    parser.add_argument(
        "--block", type=int, metavar="N", help="rows of a step (default: the drafter's, or 1)"
    )
    parser.add_argument(
        "--accept", type=float, metavar="A", help="tokens a step yields (default: as published)"
    )
    parser.add_argument("--context", type=int, metavar="N", help="positions behind the step (default: 4096)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the plan. Raises `UltraError` for what is the user's to mend."""
    from ..plan.gpus import parse
    from ..plan.plan import make

    node = parse(args.gpus)
    plan = make(_facts(args.model), node, args.block, args.accept, args.context)
    if args.json:
        print(json.dumps(as_json(plan), indent=2))
    else:
        _show(plan)
    return 0


def _facts(name: str) -> Facts:
    """A file or folder first, then what is built in, then the cache."""
    from ..errors import UnknownModel
    from ..plan.known import CONFIGS
    from ..plan.plan import Facts
    from .folders import cached, is_repo

    path = Path(name).expanduser()
    if path.exists():
        return Facts.read(path)
    if known := Facts.known(name):
        return known
    folder = cached(name) if is_repo(name) else None
    if folder is None:
        raise UnknownModel(
            f"no model {name!r}: give a config.json or its folder, or one of {', '.join(CONFIGS)}"
        )
    return Facts.read(folder)


def as_json(plan: Plan) -> dict[str, Any]:
    """Everything that is known, in bytes and seconds."""
    config, memory, bandwidth = plan.facts.config, plan.memory, plan.node.bandwidth
    return {
        "model": plan.facts.name,
        "family": config.family,
        "gpus": str(plan.node),
        "bandwidth": bandwidth,
        "parameters": config.parameters,
        "active_parameters": config.active_parameters,
        "weight_bytes": round(plan.weights),
        "kv_bytes_per_token": config.kv_bytes_per_token,
        "block": plan.load.block,
        "context": plan.load.context,
        "rank": {
            "weights": round(memory.weights),
            "drafter": round(memory.drafter),
            "kv": round(memory.kv),
            "memory": round(memory.total),
            "fits": memory.fits,
            "positions": memory.positions,
        },
        "cases": [
            {
                "name": case.name,
                "bytes": round(case.step.bytes),
                "rank_bytes": round(case.step.bytes / plan.node.ranks),
                "experts": round(case.step.experts),
                "attention": round(case.step.attention),
                "other": round(case.step.other),
                "kv": round(case.step.kv),
                "drafter": round(case.step.drafter),
                "distinct_experts": round(case.step.distinct, 2),
                "seconds": case.step.seconds(bandwidth),
                "accept": case.accept,
                "tokens_per_second": case.accept / case.step.seconds(bandwidth),
            }
            for case in plan.cases
        ],
        "blocks": [
            {"block": s.block, "distinct_experts": round(s.distinct, 2), "bytes": round(s.bytes)}
            for s in plan.blocks
        ],
        "break_even_accept": round(plan.break_even, 3),
        "warnings": list(plan.warnings),
    }


def _show(plan: Plan) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(_summary(plan))
    console.print()
    console.print(_cases(plan))
    if plan.load.block > 1:
        console.print()
        console.print(_blocks(plan))
        words = f"A block of {plan.load.block} pays from an accept length of {plan.break_even:.1f} on"
        console.print(f"\n{words} (bytes alone).")
    for warning in plan.warnings:
        console.print(f"warning: {warning}")


def _summary(plan: Plan) -> Table:
    from rich.table import Table

    from ..weights.summary import bytes_text, count_text

    config, memory, node = plan.facts.config, plan.memory, plan.node
    gpu = node.gpu
    parts = f"{memory.weights / 1e9:.1f} GB of weights"
    parts += f", {memory.drafter / 1e9:.1f} of the drafter" if memory.drafter else ""
    parts += (
        f", {memory.kv / 1e9:.2f} of KV at {plan.load.context} positions; {gpu.memory / 1e9:g} GB are there"
    )
    fits = "yes" if memory.fits else "no"
    if memory.fits:
        fits += f": one sequence may have {memory.positions:,} positions"
    window = sum(layer.attention.kv_bytes for layer in config.layers if not layer.attention.window)
    kv = f"{bytes_text(config.kv_bytes_per_token)} a token"
    if window != config.kv_bytes_per_token:
        kv += f", {bytes_text(window)} of them beyond the sliding windows"
    active = f", {count_text(config.active_parameters)} of them active"
    table = Table(show_header=False, box=None, pad_edge=False, title=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("model", f"{plan.facts.name} ({config.family}, {len(config.layers)} layers)")
    table.add_row("parameters", count_text(config.parameters) + active)
    table.add_row("weights", bytes_text(plan.weights))
    table.add_row("KV", kv)
    table.add_row("on", f"{node}: {node.bandwidth / 1e12:.3g} TB/s together")
    table.add_row("a rank", parts)
    table.add_row("fits", fits)
    return table


def _cases(plan: Plan) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    block = plan.load.block
    table.add_column("a step" if block == 1 else f"a step of a block of {block}", no_wrap=True)
    for column in ("GB", "a rank", "ms", "accept", "tok/s at most"):
        table.add_column(column, justify="right", no_wrap=True)
    for case in plan.cases:
        size, seconds = case.step.bytes / 1e9, case.step.seconds(plan.node.bandwidth)
        table.add_row(
            case.name,
            f"{size:.1f}",
            f"{size / plan.node.ranks:.2f}",
            f"{seconds * 1e3:.2f}",
            f"{case.accept:g}",
            f"{case.accept / seconds:.0f}",
        )
    return table


def _blocks(plan: Plan) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    mixture = plan.base.step.distinct > 0
    for column in ("block", *(["distinct experts"] if mixture else []), "GB", "ms"):
        table.add_column(column, justify="right", no_wrap=True)
    for step in plan.blocks:
        cells = [str(step.block), *([f"{step.distinct:.1f}"] if mixture else [])]
        seconds = step.seconds(plan.node.bandwidth)
        table.add_row(*cells, f"{step.bytes / 1e9:.1f}", f"{seconds * 1e3:.2f}")
    return table
