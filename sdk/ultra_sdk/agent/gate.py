"""Asking a person: before an edit or a command that the mode does not allow by itself."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from .errors import AgentError
from .events import Approval, PermissionAsked, PermissionGiven
from .turn import Emit

Approve = Callable[[PermissionAsked], Awaitable[Approval]]
"""Asks a person. It may take as long as it does; cancelling the turn cancels it."""


class NobodyToAsk(AgentError):
    """Something needs a person's word and nobody can give it."""


class Gate:
    """Remembers what was allowed for good.

    gate = Gate(approve)
    if await gate.allows(request, emit): ...
    """

    def __init__(self, approve: Approve | None) -> None:
        self.approve = approve
        self.waited = 0.0
        """Seconds spent on waiting for answers."""
        self._always: set[tuple[str, str]] = set()

    async def allows(self, request: PermissionAsked, emit: Emit) -> bool:
        """Whether a person lets it happen. Raises `NobodyToAsk`.

        ``always`` holds for every edit, and for a command that is the same to the letter: patterns of
        commands can be gone around.
        """
        key = (request.action, "" if request.action == "edit" else request.what)
        if key in self._always:
            return True
        await emit(request)
        if self.approve is None:
            raise NobodyToAsk(f"{request.question} Nobody can be asked here; choose a mode that allows it")
        began = time.monotonic()
        try:
            answer = await self.approve(request)
        finally:
            self.waited += time.monotonic() - began
        if answer == "always":
            self._always.add(key)
        await emit(PermissionGiven(request.id, answer))
        return answer in ("allow", "always")
