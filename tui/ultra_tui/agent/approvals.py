"""Questions that wait for a person's word, one after the other in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ultra_sdk.agent import Approval, PermissionAsked


@dataclass
class _Waiting:
    request: PermissionAsked
    answer: asyncio.Future[Approval]


class Approvals:
    """A queue of questions. ``changed`` is called when another one is the first, or the number differs."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._waiting: deque[_Waiting] = deque()

    async def ask(self, request: PermissionAsked) -> Approval:
        """Wait for the answer. Cancelled, the question goes."""
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._changed()
        try:
            return await waiting.answer
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self._changed()

    @property
    def first(self) -> PermissionAsked | None:
        """The question that is to be answered now."""
        return self._waiting[0].request if self._waiting else None

    def __len__(self) -> int:
        return len(self._waiting)

    def answer(self, request: PermissionAsked, approval: Approval) -> None:
        """Answer the first question; one that is no longer the first is left alone."""
        if self._waiting and self._waiting[0].request is request:
            waiting = self._waiting.popleft()
            if not waiting.answer.done():
                waiting.answer.set_result(approval)
            self._changed()
