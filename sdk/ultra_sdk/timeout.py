"""How long to wait."""

from __future__ import annotations

import msgspec


class Timeout(msgspec.Struct, frozen=True):
    """Seconds; None is for ever. A server's start, which may load a model, is not under ``connect``."""

    connect: float = 5.0
    """For one attempt to reach a server, hello included."""
    idle: float | None = 30.0
    """Between two messages of a running request; a healthy server sends heartbeats every 2 s."""
    total: float | None = None
    """For one whole request."""
