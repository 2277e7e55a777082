"""The coding agent: a model at work in one project, turn by turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ultra_sdk import Client
from ultra_sdk.errors import EngineError

from .acting import Acting, whole
from .bounds import Bounds, Exhausted
from .briefing import brief
from .checkpoints.history import Turn as Checkpoint
from .checks.detect import Check
from .desk import Desk
from .driving import driver_for
from .ending import Ending
from .errors import AgentError
from .events import Began, Loaded, Notice
from .gate import Approve, Gate, NobodyToAsk
from .guess import Guess
from .permissions import Mode
from .profile import Profile
from .redact import Redactor
from .reply import Driver
from .run import Run
from .sandbox import levels
from .sandbox.policy import Level
from .sessions import Sessions
from .skills import find_skills
from .tools.base import Context, Limits, Result
from .turn import Emit, Turn
from .undoable import Undoable
from .workspace.root import Root

BRIEF_SHARE = 0.25
INSTRUCTIONS_SHARE = 0.15
RESULT_SHARE = 0.12
SMALLEST_CONTEXT = 2048
CHARS_PER_TOKEN = 3


class Agent:
    """An agent in a project, with one session.

    async with Agent(engine, "path/to/project", mode="auto") as agent:
        async for event in agent.turn("make the tests pass"):
            print(event)
        await agent.undo()

    ``approve`` is asked before what the mode does not allow by itself; without it a turn ends there with the
    reason ``permission``. ``session`` is the id of an earlier one to go on with. ``profile`` says how the
    model is driven; by default its name decides. ``options`` go to `Client.stream`, such as ``temperature``.
    One turn runs at a time. Opening raises `AgentError` if the session is open elsewhere.
    """

    def __init__(
        self,
        engine: Client,
        workspace: str | Path,
        *,
        mode: Mode = "ask",
        approve: Approve | None = None,
        session: str | None = None,
        profile: Profile | None = None,
        bounds: Bounds | None = None,
        checks: Sequence[Check] = (),
        network: bool = False,
        level: Level | None = None,
        options: Mapping[str, Any] | None = None,
        data: Path | None = None,
    ) -> None:
        self.engine = engine
        """May be replaced between turns, when the connection was made anew."""
        self.root = Root(workspace)
        self.gate = Gate(approve)
        self.bounds = bounds or Bounds()
        self._sessions = Sessions(self.root.path, data)
        self.session = session or self._sessions.new()
        self._resuming = session is not None
        self._profile = profile
        self._checks = tuple(checks)
        self._network = network
        self._level: Level = level or levels.strongest()
        self._options = dict(options or {})
        self._data = data
        self._mode: Mode = mode
        self._desk: Desk | None = None
        self._turn: Turn | None = None
        self._context: Context | None = None

    async def __aenter__(self) -> Agent:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def open(self) -> None:
        """Open the session; the first turn does it otherwise. Raises `AgentError`."""
        if self._desk is None:
            self._desk = await asyncio.to_thread(self._set_up)

    async def aclose(self) -> None:
        """Stop what runs and let go of the session. Idempotent."""
        if self._turn is not None:
            await self._turn.aclose()
        desk, self._desk = self._desk, None
        if desk is not None:
            await asyncio.to_thread(desk.close)
            self._resuming = True  # opened again, it is the same session

    @property
    def mode(self) -> Mode:
        """How far the agent is trusted. A change in a turn holds from the next call on."""
        return self._mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode
        if self._context is not None:
            self._context.mode = mode

    @property
    def transcript(self) -> Path:
        """The file that keeps the session."""
        return self._sessions.path(self.session)

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._turn is not None and not self._turn.over

    def turn(self, task: str) -> Turn:
        """Work on a task: the events of it, to be iterated. Raises `RuntimeError` while another turn runs."""
        if self._turn is not None and not self._turn.over:
            raise RuntimeError("a turn is running: iterate it to its end, or cancel it")
        self._turn = Turn(lambda emit: self._work(task, emit))
        return self._turn

    async def undo(self) -> Checkpoint:
        """Take back what the last turn did to the files. Raises `CheckpointError`, `Conflict`."""
        desk = await self._idle()
        turn = await whole(asyncio.to_thread(desk.checkpoints.undo))
        desk.memory.tell(f"[The user took back your changes of the files in the turn {turn.label!r}.]")
        return turn

    async def redo(self) -> Checkpoint:
        """Bring back what `undo` took. Raises as that does."""
        desk = await self._idle()
        turn = await whole(asyncio.to_thread(desk.checkpoints.redo))
        desk.memory.tell(f"[The user brought back your changes of the files in the turn {turn.label!r}.]")
        return turn

    async def shell(self, command: str) -> Result:
        """Run a person's own command as the agent's are run, undoable, and let the model know of it."""
        desk = await self._idle()
        context = self._new_context(desk)
        if context.mode != "read-only":
            context.mode = "auto"
        # Whoever typed it has allowed it, also where nothing can confine it.
        async with Undoable(desk.checkpoints, f"!{command}"):
            result = await desk.registry.tools["bash"].run(context, desk.registry.parse("bash", command))
        desk.memory.tell(f"[The user ran a command:]\n$ {command}\n{result.text}")
        return result

    # --- a turn -------------------------------------------------------------------------------------

    async def _work(self, task: str, emit: Emit) -> None:
        """The turn from its first event to its last one, whatever happens in it."""
        ending = Ending()
        try:
            await self.open()
            assert self._desk is not None
            undoable = ending.undoable = Undoable(self._desk.checkpoints, task)
            async with undoable:
                await self._loop(self._desk, task, emit, ending)
        except asyncio.CancelledError:
            ending.stop("cancelled", "stopped")
        except Exhausted as error:
            ending.stop("gave_up", str(error))
        except NobodyToAsk as error:
            ending.stop("permission", str(error))
        except (EngineError, AgentError, OSError) as error:
            ending.stop("failed", " ".join(str(error).split()) or type(error).__name__)
        finally:
            self._context = None
        finished = ending.event()
        if self._desk is not None:
            with contextlib.suppress(AgentError):  # a full disk: that is what the turn ends with
                self._desk.memory.close_calls()
                self._desk.memory.note({"type": "done", "reason": finished.reason, "why": finished.why})
        await emit(finished)

    async def _loop(self, desk: Desk, task: str, emit: Emit, ending: Ending) -> None:
        info = self.engine.info
        await emit(Began(self.session, task, self.mode, self._level, info.model))
        if ending.undoable is not None and ending.undoable.error:
            await emit(Notice(f"this turn cannot be undone: {ending.undoable.error}"))
        profile = self._profile or Profile.of(info.model, info.capabilities)
        driver = driver_for(profile, desk.registry)
        project = await self._project(desk, emit)
        context = self._context = self._new_context(desk)
        redactor = await asyncio.to_thread(Redactor.of, self.root.path)
        acting = Acting(desk.registry, context, self.gate, desk.instructions, redactor, driver.shown, emit)
        guess = Guess([], desk.workspace.content)
        run = ending.run = Run(
            *(self.engine, driver, desk.memory, acting, self.gate, guess, project, self.bounds),
            *(self._options, emit),
        )
        known = await run.before(task)
        # A small model copies what fails instead of mending it; it is told when it says that it is done.
        plain = profile.protocol == "plain"
        guess.named.extend(await self._brief(desk, task, "" if plain else known, driver, emit, plain=plain))
        ending.outcome = await run.work()

    async def _brief(
        self, desk: Desk, task: str, known: str, driver: Driver, emit: Emit, *, plain: bool
    ) -> tuple[str, ...]:
        """Tell the model its task and what belongs to it; the paths that it brings up."""
        room = int(self._room() * BRIEF_SHARE)
        listing = not desk.briefed
        told = await asyncio.to_thread(
            lambda: brief(desk.workspace, task, known, driver.shown, room, listing=listing, plain=plain)
        )
        for loaded in told.loaded:
            await emit(loaded)
        desk.memory.task(told.text, task)
        desk.briefed = True
        return told.named

    async def _project(self, desk: Desk, emit: Emit) -> str:
        """What the project's files say to agents: its AGENTS.md, and which skills there are."""
        if desk.project is None:
            found = await asyncio.to_thread(desk.instructions.at_start)
            skills, problems = await asyncio.to_thread(find_skills, self.root)
            for each in found:
                await emit(Loaded("instructions", each.path, each.chars, each.cut))
            for skill in skills:
                await emit(Loaded("skill", skill.path, len(skill.told())))
            for problem in problems:
                await emit(Notice(problem))
            parts = [each.told() for each in found]
            if skills:
                offered = "\n".join(skill.told() for skill in skills)
                parts.append(f"Skills; read the file of one before a task that it fits:\n{offered}")
            desk.project = "\n\n".join(parts)
        return desk.project

    # --- the session --------------------------------------------------------------------------------

    def _set_up(self) -> Desk:
        path = self._sessions.existing(self.session) if self._resuming else self._sessions.path(self.session)
        return Desk(self.root, self.session, path, self._data, int(self._room() * INSTRUCTIONS_SHARE))

    def _new_context(self, desk: Desk) -> Context:
        room = self._room()
        limits = Limits(
            output_chars=min(Limits().output_chars, int(room * RESULT_SHARE)),
            read_chars=min(Limits().read_chars, int(room * BRIEF_SHARE)),
        )
        return Context(
            desk.workspace, desk.scratch, self.mode, self._level, self._network, self._checks, limits
        )

    def _room(self) -> int:
        """Characters that the model's context takes, about."""
        return max(self.engine.info.context_tokens, SMALLEST_CONTEXT) * CHARS_PER_TOKEN

    async def _idle(self) -> Desk:
        if self.busy:
            raise RuntimeError("a turn is running: wait for its end, or cancel it")
        await self.open()
        assert self._desk is not None
        return self._desk
