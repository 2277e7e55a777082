"""A coding agent for one project, to be used by any program.

    import asyncio

    from ultra_sdk import connect
    from ultra_sdk.agent import Agent, Edited, Finished


    async def main() -> None:
        async with connect() as engine, Agent(engine, ".", mode="auto") as agent:
            async for event in agent.turn("make the tests pass"):
                if isinstance(event, Edited):
                    print(event.diff)
                elif isinstance(event, Finished):
                    print(event.reason, event.verified, event.summary)


    asyncio.run(main())

`Agent` is the way in and `Event` what a turn tells. Below it, in the order in which a task meets it:

    loop.py, run.py   the session and its turns; one turn's loop
    plain.py, native.py   how a model is driven: fenced blocks, or its own tool calls
    acting.py, gate.py    doing what it asks for, and asking a person first
    workspace/, edits/, tools/, sandbox/, checks/, checkpoints/   what it may touch, and how
    transcript.py, memory.py, compact.py   what is kept, and what the model is shown of it

Nothing here knows a terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bounds import Bounds as Bounds
    from .checks.detect import Check as Check
    from .errors import AgentError as AgentError
    from .events import Approval as Approval
    from .events import Began as Began
    from .events import Checked as Checked
    from .events import Compacted as Compacted
    from .events import Edited as Edited
    from .events import Event as Event
    from .events import Finished as Finished
    from .events import Loaded as Loaded
    from .events import Notice as Notice
    from .events import PermissionAsked as PermissionAsked
    from .events import PermissionGiven as PermissionGiven
    from .events import Planned as Planned
    from .events import Reading as Reading
    from .events import ReasoningDelta as ReasoningDelta
    from .events import Spent as Spent
    from .events import Step as Step
    from .events import TextDelta as TextDelta
    from .events import ToolAnswered as ToolAnswered
    from .events import ToolCalled as ToolCalled
    from .loop import Agent as Agent
    from .permissions import MODES as MODES
    from .permissions import Mode as Mode
    from .profile import Profile as Profile
    from .sessions import SessionInfo as SessionInfo
    from .sessions import Sessions as Sessions
    from .turn import Turn as Turn

_EVENTS = (
    "Approval Began Checked Compacted Edited Event Finished Loaded Notice PermissionAsked PermissionGiven "
    "Planned Reading ReasoningDelta Spent Step TextDelta ToolAnswered ToolCalled"
)
_HOMES = {
    "bounds": "Bounds",
    "checks.detect": "Check",
    "errors": "AgentError",
    "events": _EVENTS,
    "loop": "Agent",
    "permissions": "MODES Mode",
    "profile": "Profile",
    "sessions": "SessionInfo Sessions",
    "turn": "Turn",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
