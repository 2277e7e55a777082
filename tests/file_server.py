"""A small HTTP file server that resumes, and that fails on request."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    """``files``: path to bytes. ``faults``: path to a list of faults, one used up by each request:
    ("cut", n) closes the connection after n bytes; ("status", code); ("no_range",) ignores Range;
    ("lie",) resumes at another place. ``requests`` lists (path, Range header)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[tuple[object, ...]]] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.tokens: list[str | None] = []
        self.delay = 0.0
        self.chunk = 1 << 16

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def ranges(self, path: str) -> list[str | None]:
        return [asked for requested, asked in self.requests if requested == path]


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        asked = self.headers.get("Range")
        self.server.requests.append((path, asked))
        self.server.tokens.append(self.headers.get("Authorization"))
        waiting = self.server.faults.get(path) or [("none",)]
        kind, *value = waiting.pop(0)
        data = self.server.files.get(path)
        if kind == "status" or data is None:
            self.send_response(int(str(value[0])) if kind == "status" else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = 0
        found = re.match(r"bytes=(\d+)-", asked or "")
        if found and kind != "no_range":
            start = int(found[1])
            if start >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            said = start + 1 if kind == "lie" else start
            self.send_header("Content-Range", f"bytes {said}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self._body(data[start:], int(str(value[0])) if kind == "cut" else None)

    def _body(self, data: bytes, cut: int | None) -> None:
        body = data if cut is None else data[:cut]
        try:
            for at in range(0, len(body), self.server.chunk):
                self.wfile.write(body[at : at + self.server.chunk])
                time.sleep(self.server.delay)
        except ConnectionError:
            pass
        if cut is not None:
            self.close_connection = True


@contextmanager
def serving() -> Iterator[FileServer]:
    server = FileServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
