"""Adapter for the public grep trial: the tool as a model calls it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ultra_sdk.agent.tools.base import Context
from ultra_sdk.agent.tools.registry import Registry
from ultra_sdk.agent.tools.standard import standard
from ultra_sdk.agent.workspace.files import Workspace


def grep(pattern: str, root: str, glob: str | None = None) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        context = Context(Workspace(root), Path(scratch))
        call = Registry(standard()).call("grep", {"pattern": pattern, "glob": glob or ""}, context)
        return asyncio.run(call).text
