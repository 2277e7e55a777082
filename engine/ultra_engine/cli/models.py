"""`ultra models`: list, fetch, inspect, check and delete models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Literal

from rich.console import Console
from rich.table import Table

from ..errors import DownloadError
from ..weights import cache, hub, registry
from ..weights.gguf import GGUFFile
from ..weights.summary import bytes_text, count_text, summary_table


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `ultra models` and its actions."""
    parser = commands.add_parser("models", help="list, fetch and inspect models")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="the models that have a name").set_defaults(run=_list)

    def action(name: str, run: Callable[[argparse.Namespace], int], help: str, metavar: str) -> None:
        sub = actions.add_parser(name, help=help)
        sub.add_argument("model", metavar=metavar)
        sub.set_defaults(run=run)

    action("pull", _pull, "download a model and check its sha256", "NAME")
    action("show", _show, "what is in a model file", "NAME|PATH")
    action("verify", _verify, "hash a downloaded model again", "NAME")
    action("remove", _remove, "delete a downloaded model", "NAME")
    action("path", _path, "where a downloaded model is", "NAME")


def _list(args: argparse.Namespace) -> int:
    table = Table(box=None, pad_edge=False)
    for column in ("name", "family", "parameters", "size", "licence", ""):
        justify: Literal["left", "right"] = "right" if column in ("parameters", "size") else "left"
        table.add_column(column, justify=justify, no_wrap=True)
    for model in registry.MODELS.values():
        here = "downloaded" if hub.path_of(model).is_file() else ""
        default = "default" if model.name == registry.DEFAULT_MODEL else ""
        state = ", ".join(filter(None, (default, here)))
        numbers = count_text(model.parameters), bytes_text(model.bytes)
        table.add_row(model.name, model.family, *numbers, model.licence, state)
    Console().print(table)
    return 0


def _pull(args: argparse.Namespace) -> int:
    print(hub.resolve(args.model))
    return 0


def _show(args: argparse.Namespace) -> int:
    model = registry.find(args.model)
    with GGUFFile.open(hub.resolve(args.model, offline=True)) as file:
        print(file.path)
        Console().print(summary_table(file, model.licence if model is not None else None))
    return 0


def _verify(args: argparse.Namespace) -> int:
    file, sha256, right = hub.verify(args.model)
    if right is False:
        raise DownloadError(
            f"{file} is damaged (sha256 {sha256}): ultra models pull {args.model} fetches it again"
        )
    print(f"{file}: {'ok' if right else 'nothing to compare with'}, sha256 {sha256}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    model = registry.find(args.model)
    if model is None:
        raise registry.unknown(args.model)
    file = hub.path_of(model)
    there = file.is_file() or cache.partial_dir(file).is_dir()
    cache.remove(file)
    print(f"{model.name}: {'removed' if there else 'was not downloaded'}", file=sys.stderr)
    return 0


def _path(args: argparse.Namespace) -> int:
    print(hub.resolve(args.model, offline=True))
    return 0
