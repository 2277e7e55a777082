"""Who may in. One gate for every transport: a pure function of a request's head.

The order is Host, Origin, path, number of connections, token. A browser page must not reach us even when its
user runs us on loopback (cross-site websockets, DNS rebinding), and another user's process must not either:
hence no Origin at all, a short literal list of hosts, and always a token. Nothing here raises.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

MAX_CONNECTIONS = 32
HEALTH = "/health"


@dataclass(frozen=True, slots=True)
class Head:
    """What the gate looks at; a header that came twice has two entries. ``path`` may carry a query."""

    path: str
    host: Sequence[str] = ()
    origin: Sequence[str] = ()
    authorization: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What to reply instead of going on."""

    status: HTTPStatus
    text: str


@dataclass(frozen=True, slots=True)
class Gate:
    """The rules of one listener. ``port`` is None on a Unix socket."""

    token: str = field(repr=False)
    port: int | None
    paths: frozenset[str]
    max_connections: int = MAX_CONNECTIONS

    def check(self, head: Head, connections: int) -> Answer | None:
        """None lets the request in; ``connections`` is how many are open already."""
        if len(head.host) != 1 or len(head.origin) > 1 or len(head.authorization) > 1:
            return Answer(HTTPStatus.BAD_REQUEST, "malformed request")
        if head.host[0].lower() not in self.hosts:
            return Answer(HTTPStatus.MISDIRECTED_REQUEST, "not a name of this server")
        if head.origin:
            return Answer(HTTPStatus.FORBIDDEN, "not for browsers")
        path = head.path.partition("?")[0]
        if path == HEALTH:
            return Answer(HTTPStatus.OK, "ok")
        if path not in self.paths:
            return Answer(HTTPStatus.NOT_FOUND, "no such path")
        if connections >= self.max_connections:
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
        if not self._knows(head.authorization[0] if head.authorization else ""):
            return Answer(HTTPStatus.UNAUTHORIZED, "unauthorized")
        return None

    @property
    def hosts(self) -> frozenset[str]:
        """The values of Host that mean us. Not configurable: a longer list is what rebinding needs."""
        if self.port is None:
            return frozenset({"localhost"})
        return frozenset(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    def _knows(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        # Digests have one length and no non-ASCII text, which compare_digest would not take.
        same = hmac.compare_digest(_digest(token.strip()), _digest(self.token))
        return same and scheme.lower() == "bearer"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def is_loopback(host: str) -> bool:
    """Whether binding ``host`` keeps us on this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
