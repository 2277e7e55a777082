"""The right to serve one model: at most one server of it, and nothing left behind when it ends.

The lock is held from before the model loads until everything is cleaned up; who holds it owns the socket and
the runtime file, so whatever lies there when the lock is free is stale and may be removed.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path
from types import TracebackType

import filelock
from ultra_sdk.protocol import PROTOCOL_VERSION
from ultra_sdk.protocol.runtime import (
    RuntimeInfo,
    canonical,
    info_path,
    lock_path,
    private_dir,
    read_info,
    runtime_dir,
    socket_path,
    write_info,
)

from .. import __version__
from ..errors import ServerError
from .gate import is_loopback

LOCK_SECONDS = 0.5
"""A client that only looks whether the lock is held takes it for an instant."""


class Claim:
    """The lock, the bound socket and the runtime file of one server; a context manager.

    ``port`` is None for a Unix socket, 0 for any free port on ``host``; ``openai_port`` is that of the HTTP
    endpoint, None for none. ``token`` replaces the random one. Entering raises `ServerError`.
    """

    def __init__(
        self,
        name: str,
        port: int | None = None,
        host: str = "127.0.0.1",
        openai_port: int | None = None,
        token: str | None = None,
    ) -> None:
        self.name = canonical(name)
        self.token = token or secrets.token_urlsafe(32)
        self.http: socket.socket | None = None
        """Bound for the OpenAI endpoint, if there is to be one."""
        self._openai_port = openai_port
        self._host = host
        self._port = port
        self._folder = runtime_dir()
        self._lock = filelock.FileLock(lock_path(name), timeout=LOCK_SECONDS)
        self._unix: Path | None = None
        self._socket: socket.socket | None = None

    def __enter__(self) -> Claim:
        if self._port is not None and not is_loopback(self._host):
            raise ServerError(f"{self._host} is not a loopback address: this server stays on its machine")
        try:
            private_dir(self._folder)
            self._acquire()
        except OSError as error:
            raise ServerError(f"the runtime folder cannot be used: {error}") from error
        try:
            self._bind()
        except BaseException:
            self._clean()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean()

    @property
    def socket(self) -> socket.socket:
        """Bound, not yet listening: a client that comes too early is refused, not left waiting."""
        assert self._socket is not None, "enter the claim first"
        return self._socket

    @property
    def port(self) -> int | None:
        """The TCP port, once bound; None on a Unix socket."""
        return None if self._unix is not None else int(self.socket.getsockname()[1])

    @property
    def place(self) -> str:
        """Where we listen, for people."""
        return f"unix:{self._unix}" if self._unix is not None else f"ws://{self._host}:{self.port}"

    @property
    def file(self) -> Path:
        """The runtime file, once published."""
        return info_path(self.name, self._folder)

    def publish(self, model: str) -> None:
        """Write the runtime file: from now on clients find us. Raises `ServerError`."""
        info = RuntimeInfo(
            pid=os.getpid(),
            token=self.token,
            model=model,
            name=self.name,
            protocol=PROTOCOL_VERSION,
            server=__version__,
            started=time.time(),
            unix=str(self._unix) if self._unix is not None else None,
            host=self._host if self._unix is None else None,
            port=self.port,
        )
        try:
            write_info(info, self._folder)
        except OSError as error:
            raise ServerError(f"the runtime file cannot be written: {error}") from error

    def withdraw(self) -> None:
        """Remove the runtime file: nobody new should come."""
        self.file.unlink(missing_ok=True)

    def _acquire(self) -> None:
        try:
            self._lock.acquire()
        except filelock.Timeout:
            info = read_info(self.file)
            who = f"pid {info.pid}" if info is not None else "it is still starting"
            raise ServerError(f"a server of {self.name} is already running ({who})") from None

    def _bind(self) -> None:
        self.withdraw()
        if self._port is None:
            self._bind_unix()
        else:
            self._socket = _bind_tcp(self._host, self._port)
        if self._openai_port is not None:
            self.http = _bind_tcp("127.0.0.1", self._openai_port)

    def _bind_unix(self) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise ServerError("there are no Unix sockets here: use --tcp")
        self._unix = path = socket_path(self.name, self._folder)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            private_dir(path.parent)
            path.unlink(missing_ok=True)
            self._socket.bind(str(path))
            path.chmod(0o600)  # until here the folder's 0700 protects it
        except OSError as error:
            raise ServerError(f"cannot listen on {path}: {error.strerror or error}") from error

    def _clean(self) -> None:
        self.withdraw()
        for bound in (self._socket, self.http):
            if bound is not None:
                bound.close()
        if self._unix is not None:
            self._unix.unlink(missing_ok=True)
        self._lock.release()


def _bind_tcp(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere this option lets two servers share one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ServerError(f"cannot listen on port {port}: {error.strerror or error}") from error
    return bound
