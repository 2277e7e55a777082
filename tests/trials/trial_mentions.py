"""Adapter for the public trial of file mentions."""

from __future__ import annotations

from ultra_sdk.agent.mentions import Mentions
from ultra_sdk.agent.workspace.root import Root


def complete(root: str, before: str) -> list[str]:
    return Mentions(Root(root)).complete(before)


def parse(root: str, prompt: str) -> list[str]:
    return Mentions(Root(root)).attached(prompt)
