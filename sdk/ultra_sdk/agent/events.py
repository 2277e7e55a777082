"""What a turn of the agent tells, in order: typed, frozen, and ready to be a line of JSON.

A turn begins with `Began` and ends with one `Finished`. Every `ToolCalled` is followed by one `ToolAnswered`
of the same ``id``; what the call did (`Edited`, `Checked`) and asked (`PermissionAsked`) lies between them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from .checks.failures import Failure
from .permissions import Action, Mode
from .sandbox.policy import Level

Reason = Literal["done", "gave_up", "permission", "failed", "cancelled"]
"""Why a turn ended: the model finished; a bound was reached; nobody could be asked; the engine or the disk
failed; somebody stopped it."""
Approval = Literal["allow", "always", "deny"]
"""A person's word; ``always`` holds for the same thing in the rest of the session."""


class AgentEvent(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type"):
    """Base of every event; as JSON each has its kind as ``type``."""


class Began(AgentEvent, frozen=True, tag="began"):
    """The first event of a turn."""

    session: str
    task: str
    mode: Mode
    level: Level
    """How commands are confined."""
    model: str


class Loaded(AgentEvent, frozen=True, tag="loaded"):
    """A file became part of what the model is shown without its asking."""

    kind: Literal["instructions", "skill", "file"]
    path: str
    chars: int = 0
    cut: bool = False
    """Whether it was too long and only its beginning is shown."""


class Notice(AgentEvent, frozen=True, tag="notice"):
    """Something that a person should know and that stops nothing."""

    text: str


class Step(AgentEvent, frozen=True, tag="step"):
    """The model is asked: the ``number``-th time in this turn, from 1."""

    number: int


class Reading(AgentEvent, frozen=True, tag="reading"):
    """The model reads: tokens of the prompt done so far, of ``total``."""

    done: int
    total: int


class TextDelta(AgentEvent, frozen=True, tag="text"):
    """More of what the model says."""

    text: str
    tokens: int = 0


class ReasoningDelta(AgentEvent, frozen=True, tag="reasoning"):
    """More of what it thinks, where the model tells that apart."""

    text: str
    tokens: int = 0


class Spent(AgentEvent, frozen=True, tag="spent"):
    """What a step cost; times are seconds."""

    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    tokens_per_second: float
    first_token: float


class Planned(AgentEvent, frozen=True, tag="plan"):
    """The list of steps that the model says it will take."""

    steps: tuple[str, ...]


class ToolCalled(AgentEvent, frozen=True, tag="call"):
    """The model wants something done. Arguments that are plain text are the tool's raw parameter."""

    id: str
    tool: str
    arguments: dict[str, Any] | str


class PermissionAsked(AgentEvent, frozen=True, tag="permission"):
    """A person has to say whether it may; ``diff`` shows what an edit would change."""

    id: str
    tool: str
    action: Action
    what: str
    question: str
    diff: str = ""


class PermissionGiven(AgentEvent, frozen=True, tag="permission_answer"):
    """What the person said."""

    id: str
    answer: Approval


class Edited(AgentEvent, frozen=True, tag="edit"):
    """A file was changed by an edit; ``diff`` is a unified one. What commands change is in no event."""

    id: str
    path: str
    kind: Literal["created", "edited", "removed"]
    added: int
    removed: int
    diff: str


class Checked(AgentEvent, frozen=True, tag="check"):
    """A check of the project ran."""

    name: str
    passed: bool
    why: str
    seconds: float
    failures: tuple[Failure, ...] = ()


class ToolAnswered(AgentEvent, frozen=True, tag="result"):
    """What a call came to. Secrets in ``text`` are replaced; the model was given the original."""

    id: str
    tool: str
    ok: bool
    text: str


class Compacted(AgentEvent, frozen=True, tag="compaction"):
    """Older parts of the conversation were shortened; sizes are estimated tokens."""

    before: int
    after: int
    how: Literal["results", "summary", "cut"]
    """Old outputs left out; replaced by the model's summary; cut by rule, since that was not enough."""


class Finished(AgentEvent, frozen=True, tag="done"):
    """The last event of a turn."""

    reason: Reason
    summary: str = ""
    why: str = ""
    """What stopped it, in words, unless it is done."""
    verified: bool | None = None
    """Whether the project's checks pass after the last change; None if no file was changed."""
    changed: tuple[str, ...] = ()
    """The paths that differ from before the turn, by edits and by commands."""
    steps: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


Event = (
    Began
    | Loaded
    | Notice
    | Step
    | Reading
    | TextDelta
    | ReasoningDelta
    | Spent
    | Planned
    | ToolCalled
    | PermissionAsked
    | PermissionGiven
    | Edited
    | Checked
    | ToolAnswered
    | Compacted
    | Finished
)
