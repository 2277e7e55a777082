"""`ultra doctor`: what this machine has, and what runs on it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .examine import Report

ABOUT = """\
Looks at the processor, memory and its speed, disk, GPUs, the compiler, the sandbox, the runtime folder and
running servers; says which models fit, how fast memory lets them be, what to do about the rest. It changes
nothing. The exit code is 0 where the engine can run, 1 where it cannot."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand to the parser of `ultra`."""
    parser = commands.add_parser(
        "doctor", help="what this machine has, and what runs on it", description=ABOUT
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Examine and report; 0 if the engine can run."""
    from .examine import examine

    report = examine()
    if args.json:
        print(json.dumps(report.json(), indent=2))
    else:
        _show(report)
    return 0 if report.runs else 1


def _show(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    marks = {"ok": ("ok", "green"), "warning": ("!", "yellow"), "error": ("x", "bold red")}
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(justify="right")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in report.findings:
        mark, style = marks[finding.verdict.value]
        table.add_row(Text(mark, style=style), finding.label, Text(finding.words))
    console.print(table)
    console.print()
    console.print(_models(report))
    for line in report.advice:
        console.print(Text(f"- {line}"))
    console.print("The engine can run here." if report.runs else "The engine cannot run here yet.")


def _models(report: Report) -> object:
    from rich.table import Table
    from rich.text import Text

    from ...weights.summary import bytes_text

    table = Table(box=None, pad_edge=False)
    for column in ("model", "on", "size", "reads a token", "tok/s at most", "fits"):
        right = column in ("size", "reads a token", "tok/s at most")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    for fit in report.fits:
        fits = "yes" if fit.fits else "no"
        words = (fit.name, fit.where, bytes_text(fit.bytes), bytes_text(fit.read), f"{fit.speed:.0f}")
        table.add_row(*map(Text, words), fits + (", downloaded" if fit.downloaded else ""))
    return table
