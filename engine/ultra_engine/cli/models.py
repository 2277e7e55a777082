"""`ultra models`: list, fetch, inspect, check and delete models."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any, Literal

from ..errors import DownloadError, ModelError
from ..weights import hub, registry
from ..weights.summary import bytes_text, count_text

ABOUT = """\
Models have names of ours (ultra models list), or are org/name on the hub, or files and folders of yours. What
is downloaded lies in the cache: $ULTRA_CACHE/models, or the platform's cache folder."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `ultra models` and its actions."""
    parser = commands.add_parser("models", help="list, fetch and inspect models", description=ABOUT)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def action(name: str, run: Callable[[argparse.Namespace], int], help: str, metavar: str = "") -> Any:
        sub = actions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        if metavar:
            sub.add_argument("model", metavar=metavar)
        sub.set_defaults(run=run)
        return sub

    known = action("list", _list, "the models that have a name, and those on this disk")
    action("pull", _pull, "download a model and check its sha256; goes on where it stopped", "NAME")
    shown = action("show", _show, "what a model is, what its weights are, what a token reads", "NAME|PATH")
    checked = action("verify", _verify, "check every file of a model: size, structure, sha256", "NAME|PATH")
    removed = action("remove", _remove, "delete a downloaded model", "NAME")
    action("path", _path, "where a downloaded model is", "NAME")
    removed.add_argument("-y", "--yes", action="store_true", help="do not ask")
    for sub in (known, shown, checked):
        sub.add_argument("--json", action="store_true", help="print JSON")


def _list(args: argparse.Namespace) -> int:
    rows = _rows()
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in ("name", "family", "parameters", "size", "licence", ""):
        justify: Literal["left", "right"] = "right" if column in ("parameters", "size") else "left"
        table.add_column(column, justify=justify, no_wrap=True)
    for row in rows:
        here = "downloaded" if row["path"] else ""
        state = ", ".join(filter(None, ("default" if row["default"] else "", here)))
        parameters = count_text(row["parameters"]) if row["parameters"] else ""
        words = (row["name"], row["family"], parameters, bytes_text(row["bytes"]), row["licence"], state)
        table.add_row(*(Text(word or "") for word in words))
    Console().print(table)
    return 0


def _rows() -> list[dict[str, Any]]:
    """Models with a name first, then what else is on the disk."""
    from . import shelf

    rows = []
    for model in registry.MODELS.values():
        path = hub.path_of(model)
        row = {"name": model.name, "family": model.family, "parameters": model.parameters}
        row |= {"bytes": model.bytes, "licence": model.licence}
        row["default"] = model.name == registry.DEFAULT_MODEL
        rows.append(row | {"path": str(path) if path.is_file() else None})
    for held in (*shelf.ours(), *shelf.of_the_hub()):
        if registry.find(held.name) is None:
            row = {"name": held.name, "family": _family(held.path), "parameters": None, "bytes": held.bytes}
            licence = shelf.licence(None, held.path)
            rows.append(row | {"licence": licence, "default": False, "path": str(held.path)})
    return rows


def _family(path: Any) -> str | None:
    """Of a folder, by its config.json; a GGUF file would have to be read."""
    try:
        return str(json.loads((path / "config.json").read_bytes())["model_type"])[:40]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _pull(args: argparse.Namespace) -> int:
    print(hub.resolve(args.model))
    return 0


def _show(args: argparse.Namespace) -> int:
    from . import shelf
    from .showing import Shown

    path = shelf.path_of(args.model)
    shown = Shown(path, shelf.licence(registry.find(args.model), path))
    if args.json:
        print(json.dumps(shown.json(), indent=2))
        return 0
    from rich.console import Console

    print(path)
    Console().print(shown.table())
    return 0


def _verify(args: argparse.Namespace) -> int:
    from . import shelf
    from .verifying import verify

    model = registry.find(args.model)
    if model is not None and not hub.path_of(model).is_file():
        raise DownloadError(f"{model.name} is not downloaded: ultra models pull {model.name}")
    path = hub.path_of(model) if model is not None else shelf.path_of(args.model)
    findings = verify(args.model, path, quiet=args.json)
    if args.json:
        found = [
            {"path": str(f.path), "good": f.good, "words": f.words, "sha256": f.sha256} for f in findings
        ]
        print(json.dumps({"good": all(f.good is not False for f in findings), "files": found}, indent=2))
    bad = [finding for finding in findings if finding.good is False]
    for finding in findings if not args.json else []:
        if finding.good is not False:
            print(
                f"{finding.path}: {finding.words}" + (f", sha256 {finding.sha256}" if finding.sha256 else "")
            )
    if bad:
        again = f": ultra models pull {args.model} fetches it again" if model is not None else ""
        sums = f" (sha256 {bad[0].sha256})" if bad[0].sha256 else ""
        more = f"; and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise DownloadError(f"{bad[0].path} {bad[0].words}{sums}{more}{again}")
    return 0


def _remove(args: argparse.Namespace) -> int:
    from . import shelf

    folders = shelf.to_remove(args.model)
    model = registry.find(args.model)
    name = model.name if model is not None else args.model
    strategy = shelf.hub_strategy(name) if model is None and not folders else None
    if not folders and strategy is None:
        print(f"{name}: was not downloaded", file=sys.stderr)
        return 0
    size = strategy.expected_freed_size if strategy is not None else sum(map(shelf.size_of, folders))
    if not args.yes and not _confirmed(f"remove {name} and free {bytes_text(size)}?"):
        print(f"{name}: kept", file=sys.stderr)
        return 1
    if strategy is not None:
        strategy.execute()
    else:
        shelf.remove(name, folders)
    print(f"{name}: removed, {bytes_text(size)} freed", file=sys.stderr)
    return 0


def _confirmed(question: str) -> bool:
    """Ask on the terminal. Raises `ModelError` where nobody can answer."""
    if not sys.stdin.isatty():
        raise ModelError(f"{question} nobody can answer here: say --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _path(args: argparse.Namespace) -> int:
    from . import shelf

    print(shelf.path_of(args.model))
    return 0
