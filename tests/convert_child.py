"""Converts a model in a process of its own, which may come to harm: argv is source, folder, JSON.

``harm`` is done to itself when so many bytes (``at``) are written: "kill" or "interrupt". ``limit`` is the
largest file that it may write.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

from ultra_engine.cli import main
from ultra_engine.weights.progress import Meter


def harmful(how: str, at: int) -> None:
    plain = Meter.update

    def update(self: Meter, done: int) -> None:
        plain(self, done)
        if done >= at:
            os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGINT)

    Meter.update = update  # type: ignore[method-assign]


if __name__ == "__main__":
    source, folder, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "harm" in given:
        harmful(given["harm"], given["at"])
    if "limit" in given:
        resource.setrlimit(resource.RLIMIT_FSIZE, (given["limit"], given["limit"]))
    sys.exit(main(["convert", source, "-o", folder, "--experts", "mxfp4", "--shard-size", given["shard"]]))
