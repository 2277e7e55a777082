"""The tool `done`: the explicit end of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from .base import Context, Params, Result, Tool


class Done(Params, frozen=True, kw_only=True):
    summary: Annotated[str, Meta(description="what was done, in a sentence or two")]


@dataclass(frozen=True, slots=True)
class DoneResult(Result):
    """The model's own words on what it did."""

    summary: str = ""


async def run(context: Context, params: Done) -> Result:
    """It ends nothing by itself: whoever runs the loop does."""
    return DoneResult("done", True, params.summary.strip())


TOOL = Tool("done", "Finish the task.", Done, "read", run, raw="summary")
