"""What a command wrote: its beginning and its end in memory, all of it up to a bound in a file."""

from __future__ import annotations

import contextlib
from pathlib import Path

HEAD_BYTES = 64 << 10
TAIL_BYTES = 256 << 10
FILE_BYTES = 16 << 20


class Output:
    """A sink of bytes with a bound.

    output = Output(Path("/tmp/x/output-1.txt"))
    output.write(b"...")
    output.text()
    """

    def __init__(self, path: Path | None = None, *, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self.total = 0
        self.path = path
        self._bounds = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self._file = None
        if path is not None:
            with contextlib.suppress(OSError):  # a full disk does not stop the command
                self._file = path.open("wb")
                path.chmod(0o600)

    def write(self, data: bytes) -> None:
        """Take what came."""
        if self._file is not None and self.total < FILE_BYTES:
            with contextlib.suppress(OSError):
                self._file.write(data[: FILE_BYTES - self.total])
        self.total += len(data)
        head, tail = self._bounds
        room = head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * tail:
            del self._tail[:-tail]

    def text(self) -> str:
        """What is in memory, with a line for what is not. Bytes that are no UTF-8 are shown as U+FFFD."""
        head, tail = bytes(self._head), bytes(self._tail[-self._bounds[1] :])
        lost = self.total - len(head) - len(tail)
        if not lost:
            return (head + tail).decode("utf-8", "replace")
        first, last = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
        return f"{first}\n[... {lost:,} bytes ...]\n{last}"

    def close(self) -> None:
        """Write the file out."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
