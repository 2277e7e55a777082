"""The `ultra` command: one module per subcommand, each with `add(subparsers)`.

A user's error is one line on stderr and exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..errors import UltraError

ENGINE_EXTRA = "the engine is not installed here: pip install 'ultra-chat[engine]'"
ENGINE_PACKAGES = {
    "torch",
    "numpy",
    "tokenizers",
    "jinja2",
    "httpx",
    "filelock",
    "huggingface_hub",
    "psutil",
    "safetensors",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ultra`. Returns the exit code: 0 done, 1 a user's error, 2 wrong usage, 130 interrupted."""
    try:
        from . import convert, doctor, models, plan, serve

        parser = argparse.ArgumentParser(prog="ultra", description="Serve and manage local models.")
        commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        for module in (serve, models, convert, plan, doctor):
            module.add(commands)
        args = parser.parse_args(argv)
        return int(args.run(args))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ENGINE_PACKAGES:
            raise
        print(f"ultra: {ENGINE_EXTRA} ({error.name} is missing)", file=sys.stderr)
        return 1
    except UltraError as error:
        print(f"ultra: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
