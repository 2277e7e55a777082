"""What `decode.py` makes of its seconds: figures for the JSON, and tables."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from decode import Contestant


def weights_mb(path: Path) -> float:
    """MB of weights that one token reads: not those of an embedding table that is no head."""
    from ultra_engine.models import lower, read_config
    from ultra_engine.weights.gguf import GGUFFile
    from ultra_engine.weights.load import load_weights
    from ultra_kernels.program import Op

    file = GGUFFile.open(path)
    program = lower(read_config(file))
    multiplied = {id for node in program.nodes if node.op is not Op.EMBED for id in node.operands}
    weights = load_weights(file, program)
    total = sum(weights[b.name].data.numel() for b in program.weights() if b.id in multiplied)
    del weights
    file.close()
    return total / 1e6


def figures(contestant: Contestant, args: argparse.Namespace, path: Path) -> dict[str, Any]:
    """Medians of one contestant."""
    prefill, decode = contestant.median("prefill") or 0.0, contestant.median("decode") or 0.0
    steps = {
        key: round(1e3 * seconds, 2)
        for key in ("rows 1", "rows 4", "rows 8", "together 1", "together 8")
        if (seconds := contestant.median(key)) is not None
    }
    tps = args.tokens / decode
    return {
        "load_s": round(contestant.median("load") or 0.0, 2),
        "prefill_tps": round(args.prompt / prefill, 2),
        "decode_tps": round(tps, 2),
        "decode_gbps": round(tps * weights_mb(path) / 1e3, 2),
        "prefill_all": [round(args.prompt / x, 2) for x in contestant.times["prefill"]],
        "decode_all": [round(args.tokens / x, 2) for x in contestant.times["decode"]],
        "step_ms": steps,
        "idle_cpu": round(contestant.median("idle") or 0.0, 4),
        "peak_mb": contestant.peak_mb,
    }


def show(report: dict[str, Any], console: Console) -> None:
    """The tables of a report."""
    console.print(_speeds(report))
    console.print(_steps(report))
    idle = {name: row["idle_cpu"] for name, row in report["peers"].items()}
    console.print(
        f"from start to first token, prompt of 32, s: {_pairs(report['first_token_s'])}\n"
        f"decode beside a busy process, tok/s: {_pairs(report['decode_tps_beside_a_busy_process'])}\n"
        f"processor seconds in an idle second: {_pairs(idle)}"
    )


def _pairs(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def _speeds(report: dict[str, Any]) -> Table:
    title = f"{report['model']}, {report['file_mb']} MB, {report['threads']} threads"
    caption = f"{report['machine']}; reading memory: {report['read_gbps']} GB/s"
    table = Table(title=f"{title}, medians of {report['rounds']}", caption=caption)
    table.add_column("")
    prefill = f"prefill {report['prompt']} tok/s"
    for column in ("load s", prefill, "ratio", "decode tok/s", "ratio", "GB/s", "% of read", "peak MB"):
        table.add_column(column, justify="right")
    base = report["peers"].get("llama.cpp")
    for name, row in report["peers"].items():
        ratios = [f"{row[k] / base[k]:.2f}" if base else "" for k in ("prefill_tps", "decode_tps")]
        table.add_row(
            name,
            f"{row['load_s']:.1f}",
            *(f"{row['prefill_tps']:.1f}", ratios[0], f"{row['decode_tps']:.1f}", ratios[1]),
            # Others may hold the weights in another precision: theirs is not what the file has.
            *(
                (f"{row['decode_gbps']:.1f}", f"{100 * row['decode_gbps'] / report['read_gbps']:.0f}")
                if name in ("ultra", "llama.cpp")
                else ("", "")
            ),
            str(row["peak_mb"]),
        )
    return table


def _steps(report: dict[str, Any]) -> Table:
    table = Table(title="one step after 128 positions: ms, and against a step of one token")
    table.add_column("")
    for column in ("1 row", "4 rows", "8 rows", "8 sequences", "their tok/s against one's"):
        table.add_column(column, justify="right")
    for name, row in report["peers"].items():
        ms = row["step_ms"]
        if "rows 1" not in ms:
            continue
        cells = [f"{ms['rows 1']:.1f}"]
        cells += [f"{ms[k]:.1f} ({ms[k] / ms['rows 1']:.2f}x)" for k in ("rows 4", "rows 8")]
        if "together 8" in ms:
            cells += [f"{ms['together 8']:.1f}", f"{8 * ms['together 1'] / ms['together 8']:.2f}x"]
        table.add_row(name, *cells)
    return table
