"""A turn's checkpoint around whatever happens in it."""

from __future__ import annotations

import asyncio
from types import TracebackType

from .acting import whole
from .checkpoints.checkpoints import Checkpoints
from .errors import CheckpointError


class Undoable:
    """``async with``: what is done to the files inside can be taken back, however it ends.

    async with Undoable(checkpoints, "a task") as undoable: ...
    undoable.changed   # the paths that differ
    """

    def __init__(self, checkpoints: Checkpoints, label: str) -> None:
        self._checkpoints = checkpoints
        self._label = label
        self.error = ""
        """Why it cannot be undone, if so: the project may be too large. The turn goes on all the same."""
        self.changed: tuple[str, ...] = ()

    async def __aenter__(self) -> Undoable:
        try:
            await whole(asyncio.to_thread(self._checkpoints.begin, self._label))
        except CheckpointError as error:
            self.error = str(error)
        except asyncio.CancelledError:
            await self._end()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.error:
            await self._end()

    async def _end(self) -> None:
        self.changed = await whole(asyncio.to_thread(self._ended))

    def _ended(self) -> tuple[str, ...]:
        turn = self._checkpoints.end()
        return tuple(self._checkpoints.changes(turn)) if turn is not None else ()
