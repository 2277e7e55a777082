"""`ultra models`: what there is, what is in a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from ..weights.gguf import GGUFFile
from ..weights.summary import summary_table


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `ultra models` and its actions."""
    parser = commands.add_parser("models", help="list, fetch and inspect models")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="what is in a model file")
    show.add_argument("model", metavar="NAME|PATH")
    show.set_defaults(run=_show)


def _show(args: argparse.Namespace) -> int:
    with GGUFFile.open(Path(args.model)) as file:
        Console().print(summary_table(file))
    return 0
