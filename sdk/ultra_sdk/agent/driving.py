"""Which driver a profile asks for."""

from __future__ import annotations

from .native import Native
from .plain import Plain
from .profile import Profile
from .reply import Driver
from .tools.registry import Registry


def driver_for(profile: Profile, registry: Registry) -> Driver:
    """A driver with the tools of ``registry``."""
    tools = {name: tool.params.__struct_fields__ for name, tool in registry.tools.items()}
    if profile.protocol == "tools":
        return Native(registry.schemas(), tools)
    return Plain(tools, profile.edits)
