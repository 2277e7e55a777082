"""Adapter for the public SEARCH/REPLACE trial."""

from __future__ import annotations

from ultra_sdk.agent.edits.plan import Plan
from ultra_sdk.agent.workspace.files import Workspace


def apply(directory: str, answer: str) -> None:
    plan = Plan(Workspace(directory))
    plan.blocks(answer)
    plan.commit()
