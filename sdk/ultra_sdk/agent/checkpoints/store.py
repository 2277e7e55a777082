"""Contents by their hash, in a folder of ours. A content that was stored is never written again."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
import zlib
from collections.abc import Container
from pathlib import Path

from ..errors import CheckpointError

RAW, PACKED = b"r", b"z"
GRACE_SECONDS = 3600.0
"""Younger contents are not swept: another session may be about to name them."""


class Store:
    """A content store.

    store = Store(folder)
    store.get(store.put(b"hello"))   # b"hello"
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = 0
        """Bytes that this object has added."""

    def put(self, data: bytes) -> str:
        """Keep ``data``; the name under which `get` finds it."""
        digest = hashlib.sha256(data).hexdigest()
        if self.has(digest):
            return digest
        path = self._path(digest)
        packed = zlib.compress(data, 1)
        content = PACKED + packed if len(packed) < len(data) else RAW + data
        half = f"{os.path.dirname(path)}/{secrets.token_hex(8)}.tmp"
        try:
            with os.fdopen(self._new(half), "wb") as file:
                file.write(content)
            os.rename(half, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(half)
            raise
        self.written += len(content)
        return digest

    def has(self, digest: str) -> bool:
        """Whether it is kept; if so it counts as young again."""
        try:
            os.utime(self._path(digest))
        except FileNotFoundError:
            return False
        return True

    def get(self, digest: str) -> bytes:
        """What was kept under this name. Raises `CheckpointError` if it is missing or damaged."""
        try:
            with open(self._path(digest), "rb") as file:
                content = file.read()
            data = zlib.decompress(content[1:]) if content[:1] == PACKED else content[1:]
        except (OSError, zlib.error):
            data = b""
        if hashlib.sha256(data).hexdigest() != digest:
            raise CheckpointError(f"the checkpoint store has lost {digest[:12]} (in {self.folder})")
        return data

    def size(self) -> int:
        """Bytes of all contents."""
        return sum(path.stat().st_size for path in self.folder.glob("??/*"))

    def sweep(self, live: Container[str], grace: float = GRACE_SECONDS) -> None:
        """Remove what is not ``live`` and older than ``grace`` seconds, and half-written files."""
        limit = time.time() - grace
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(FileNotFoundError):
                if path.parent.name + path.name not in live and path.stat().st_mtime < limit:
                    path.unlink()

    def _new(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            return os.open(path, flags, 0o600)

    def _path(self, digest: str) -> str:
        return f"{self.folder}/{digest[:2]}/{digest[2:]}"
