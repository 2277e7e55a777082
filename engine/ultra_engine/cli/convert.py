"""`ultra convert`: a model's experts in MXFP4."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ABOUT = """\
Writes a safetensors checkpoint whose experts (or MLPs) are MXFP4, 4.25 bits a weight, in the layout of MiMo's
checkpoints. Everything else is copied byte for byte. Nothing that could spoil more than it saves is touched:
attention, router, norms, embeddings and the head stay as they are.

The command may be interrupted at any time: the same command goes on, and gives the same bytes."""

SCALES = """\
--scale says how the power of two of a group of 32 weights is chosen: "mse" takes the one with the least
squared error, "max" that of the largest weight (OCP MX 1.0, 6.3). "mse" is never worse."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand to the parser of `ultra`."""
    parser = commands.add_parser(
        "convert",
        help="quantise a model's experts to MXFP4",
        description=ABOUT,
        epilog=SCALES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="a folder with config.json, or org/name in the cache")
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="DIR", help="a new folder")
    parser.add_argument("--experts", metavar="FORMAT", help="format of the experts: mxfp4")
    parser.add_argument("--mlp", metavar="FORMAT", help="format of dense MLPs: mxfp4 (costs quality)")
    for role in ("attention", "router", "norms", "embeddings", "head"):
        parser.add_argument(f"--{role}", metavar="FORMAT", help=argparse.SUPPRESS)  # refused, with the reason
    parser.add_argument("--scale", choices=("mse", "max"), default="mse", help="see below (default: mse)")
    parser.add_argument(
        "--shard-size", type=_size, default="5GB", metavar="SIZE", help="of one file (default: 5GB)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress and no table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Convert. Raises `UltraError` for what is the user's to mend."""
    from ..convert.convert import Conversion
    from ..weights.progress import Meter
    from .folders import folder_of

    roles = ("experts", "mlp", "attention", "router", "norms", "embeddings", "head")
    formats = {role: getattr(args, role) for role in roles if getattr(args, role) is not None}
    with Conversion(folder_of(args.model), args.output, formats, args.scale, args.shard_size) as conversion:
        if "mlp" in formats and not args.quiet:
            _warn_dense()
        with Meter(f"converting to {args.output}", conversion.bytes, not args.quiet) as meter:
            try:
                result = conversion.run(meter.update)
            except KeyboardInterrupt:
                meter.note("stopped; the same command goes on from here")
                raise
    if not args.quiet:
        _report(result)
    print(result.folder)
    return 0


def _warn_dense() -> None:
    text = (
        "every token uses all of a dense MLP, so 4 bits cost quality there that you will notice: measure it"
    )
    print(f"ultra: warning: {text}", file=sys.stderr)


def _report(result: object) -> None:
    from rich.console import Console

    from ..convert.convert import Result
    from ..weights.summary import bytes_text

    assert isinstance(result, Result)
    console, total = Console(stderr=True), result.losses.total
    console.print(result.losses.table())
    console.print(
        f"{total.weights:,} weights, relative rms {total.relative_rms:.3%}; "
        f"{bytes_text(result.before)} -> {bytes_text(result.after)}; the errors are in conversion.json",
        highlight=False,
    )


def _size(text: str) -> int:
    units = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
    number = text.upper().rstrip("KMGB")
    unit = text.upper()[len(number) :]
    if not (number.isascii() and number.isdecimal()) or unit not in units or not 0 < int(number) < 10**9:
        raise argparse.ArgumentTypeError(f"a size such as 5GB or 500MB, not {text!r}")
    return int(number) * units[unit]
