"""Adapter for the public literal-replacement trial: through the edits that the edit tool makes."""

from __future__ import annotations

import os

from ultra_sdk.agent.edits.plan import Plan
from ultra_sdk.agent.workspace.files import Workspace


def edit(path: str, old: str, new: str, all: bool = False) -> None:
    plan = Plan(Workspace(os.path.dirname(path)))
    plan.replace(os.path.basename(path), old, new, every=all)
    plan.commit()
