"""Where models lie on disk, and which of them are known to be whole.

models/<name>/<file>.gguf             the model, only ever complete; for safetensors see `hub_checkpoint`
models/<name>/<file>.gguf.verified    size, mtime and sha256 of the file when it was last hashed
models/<name>/.partial/               what an interrupted download left, to be resumed
models/<name>/.lock                   held while downloading
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

CHUNK = 1 << 20


def models_dir() -> Path:
    """``ULTRA_CACHE/models``, or the platform's cache folder."""
    root = os.environ.get("ULTRA_CACHE") or platformdirs.user_cache_dir("ultra", appauthor=False)
    return Path(root) / "models"


def partial_dir(file: Path) -> Path:
    """Where the download of ``file`` keeps what is not complete."""
    return file.parent / ".partial"


def free_bytes(path: Path) -> int:
    """Free space where ``path`` will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def file_sha256(path: Path, tick: Callable[[int], None] = lambda done: None) -> str:
    """``tick`` is called with the bytes hashed so far."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            tick(done)
    return digest.hexdigest()


def _stamp_path(file: Path) -> Path:
    return file.with_name(file.name + ".verified")


def stamp(file: Path, sha256: str) -> None:
    """Remember that ``file`` has this sum."""
    stat = file.stat()
    text = json.dumps({"size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "sha256": sha256})
    _stamp_path(file).write_text(text)


def stamped(file: Path) -> str | None:
    """The sum that ``file`` had when it was last hashed; None if it was changed since, or never hashed."""
    try:
        known, stat = json.loads(_stamp_path(file).read_text()), file.stat()
        same = (known["size"], known["mtime_ns"]) == (stat.st_size, stat.st_mtime_ns)
        return str(known["sha256"]) if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def noted(file: Path) -> str | None:
    """The sum that ``file`` had when it was last hashed, even if it was changed since."""
    try:
        return str(json.loads(_stamp_path(file).read_text())["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove(file: Path) -> None:
    """Delete a model, its stamp and its partial download."""
    _stamp_path(file).unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    shutil.rmtree(partial_dir(file), ignore_errors=True)


@contextmanager
def locked(file: Path, label: str, show: bool) -> Iterator[None]:
    """One download of ``file`` at a time; a second process waits here and says so."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(file.parent / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if show:
            print(f"{label} is being downloaded by another process: waiting for it", file=sys.stderr)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
