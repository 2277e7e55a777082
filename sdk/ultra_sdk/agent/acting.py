"""Doing what an answer asks for: permission, the tool itself, and the events that tell of it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal, TypeVar

from .checks.detect import detect
from .checks.report import CheckReport
from .edits.diff import counts, show
from .errors import AgentError, Stale
from .events import Checked, Edited, Loaded, PermissionAsked, ToolAnswered, ToolCalled
from .gate import Gate, NobodyToAsk
from .instructions import InstructionFiles
from .parsing.calls import Call
from .permissions import Action
from .redact import Redactor
from .tools import edit, write
from .tools.base import Context, Params, Result
from .tools.bash import Bash
from .tools.check import CheckResult
from .tools.edit import Edit, EditResult
from .tools.read import Read
from .tools.registry import Registry
from .tools.write import Write
from .turn import Emit
from .watch import State, state
from .workspace.files import Change

T = TypeVar("T")

REFUSED = "the user refused it; do something else, or end the task and say why"
LOOKS = frozenset({"cat", "head", "tail", "ls", "wc", "pwd"})
"""Commands that are let run write-protected where others are asked for."""
SHELL_SYNTAX = frozenset("|&;<>()$`*?[]{}~#\\\n")


class Acting:
    """Runs the calls of one turn."""

    def __init__(
        self,
        registry: Registry,
        context: Context,
        gate: Gate,
        instructions: InstructionFiles,
        redactor: Redactor,
        shown: Callable[[str, str], str],
        emit: Emit,
    ) -> None:
        self._registry = registry
        self._context = context
        self._gate = gate
        self._instructions = instructions
        self._redactor = redactor
        self._shown = shown
        self._emit = emit
        self.dirty = False
        """Whether files changed since the project's checks ran."""
        self.changed = False
        """Whether files changed at all."""
        self.tried = False
        """Whether a command ran since the last edit."""

    async def run(self, id: str, call: Call) -> Result:
        """Run one call. Raises `NobodyToAsk`; whatever else goes wrong is a result that says so."""
        await self._emit(ToolCalled(id, call.name, call.arguments))
        try:
            result = await self._permitted(id, call)
        except NobodyToAsk as error:
            await self._emit(ToolAnswered(id, call.name, False, str(error)))
            raise
        await self._tell(id, result)
        await self._emit(ToolAnswered(id, call.name, result.ok, self._redactor.redact(result.text)))
        return result

    def can_run(self) -> bool:
        """Whether commands may run, or somebody can be asked."""
        decision = self._registry.permission("bash", self._context)
        return decision == "allow" or (decision == "ask" and self._gate.approve is not None)

    async def check(self, id: str) -> CheckResult | None:
        """Run the project's checks, if it has any and commands can run."""
        if not self.can_run():
            return None
        checks = self._context.checks or tuple(await asyncio.to_thread(detect, self._context.workspace.root))
        if not checks:
            return None
        result = await self.run(id, Call("check", {}))
        self.dirty = False
        return result if isinstance(result, CheckResult) else None

    # --- one call -----------------------------------------------------------------------------------

    async def _permitted(self, id: str, call: Call) -> Result:
        try:
            params = self._registry.parse(call.name, call.arguments)
            decision = self._registry.permission(call.name, self._context)
            if decision == "deny":
                return await self._registry.call(call.name, call.arguments, self._context)
            if isinstance(params, Write) and (unseen := await asyncio.to_thread(self._unseen, params.path)):
                return Result(unseen, ok=False)
            context = self._context
            if decision == "ask" and isinstance(params, Bash) and self._only_looks(params.cmd):
                context = replace(context, mode="read-only")  # nothing can be written then
            elif decision == "ask" and not await self._asked(id, call.name, params):
                return Result(REFUSED, ok=False)
        except NobodyToAsk:
            raise
        except AgentError as error:
            return Result(str(error), ok=False)
        return await self._carried_out(call, params, context)

    async def _carried_out(self, call: Call, params: Params, context: Context) -> Result:
        running = self._registry.call(call.name, call.arguments, context)
        if isinstance(params, Write | Edit):
            result = await whole(running)
            self._note_change(isinstance(result, EditResult) and result.ok)
            self.tried = self.tried and not result.ok
            path = params.path
        elif isinstance(params, Bash):
            before = await asyncio.to_thread(self._state)
            result = await running
            self.tried = True
            after = await asyncio.to_thread(self._state)
            self._note_change(before is None or before != after)
            path = await asyncio.to_thread(self._looked_at, params.cmd) if result.ok else ""
        else:
            result = await running
            path = params.path if isinstance(params, Read) and result.ok else ""
        return await self._with_instructions(result, path)

    def _state(self) -> State | None:
        return state(self._context.workspace.root) if self._context.mode != "read-only" else {}

    def _note_change(self, changed: bool) -> None:
        self.dirty = self.dirty or changed
        self.changed = self.changed or changed

    async def _asked(self, id: str, name: str, params: Params) -> bool:
        diff = await asyncio.to_thread(self._preview, params)
        if isinstance(params, Write | Edit) and not diff:
            return True  # it changes nothing, and says so
        action: Action = self._registry.tools[name].action
        if action == "shell" and self._context.network:
            action = "network"
        what = await asyncio.to_thread(self._named, params)
        question = self._registry.asks(name, what, self._context)
        return await self._gate.allows(PermissionAsked(id, name, action, what, question, diff), self._emit)

    def _named(self, params: Params) -> str:
        if isinstance(params, Bash):
            return params.cmd
        if isinstance(params, Write | Edit):
            return params.path or "files"
        checks = self._context.checks or detect(self._context.workspace.root)
        return " and ".join(check.command for check in checks) or "the checks"

    def _preview(self, params: Params) -> str:
        """What an edit would change. Raises the error of one that would be refused: nobody is asked then."""
        if isinstance(params, Write):
            plan, _ = write.planned(self._context, params)
        elif isinstance(params, Edit):
            plan = edit.planned(self._context, params)
        else:
            return ""
        return "".join(show(change) for change in plan.changes() if change.changed)

    def _unseen(self, name: str) -> str | None:
        """For a whole file in the place of one that the model has not seen as it is: what it is."""
        files = self._context.workspace
        path = files.writable(name)
        reading = files.peek(path)
        if reading is None:
            return None
        try:
            files.expect_fresh(name, reading)
            if files.has_read(path) or not reading.text.content.strip():
                files.read(path)
                return None
            why = "exists and you have not seen it, so it was not overwritten"
        except Stale:
            why = "changed since you saw it, so it was not overwritten"
        content = reading.text.content
        if len(content) > self._context.limits.read_chars:
            return f"{path} {why}; read it first, or change it by a command"
        files.read(path)
        shown = self._shown(path, content)
        return f"{path} {why}. It is:\n{shown}\nWrite all of it again, changed as the task needs."

    def _only_looks(self, command: str) -> bool:
        """Whether a command shows files of the project and nothing else, and would be held to that."""
        if self._context.level == "advisory" or SHELL_SYNTAX & set(command):
            return False
        try:
            name, *words = shlex.split(command)
            paths = [word for word in words if not word.startswith("-")]
            return name in LOOKS and all(self._context.workspace.root.locate(path) for path in paths)
        except (ValueError, AgentError):
            return False

    def _looked_at(self, command: str) -> str:
        """The file that a plain ``cat`` showed, which so counts as read; empty if it was no such command."""
        if SHELL_SYNTAX & set(command):
            return ""
        try:
            words = shlex.split(command)
        except ValueError:
            return ""
        if len(words) != 2 or words[0] != "cat":
            return ""
        with contextlib.suppress(AgentError):
            files = self._context.workspace
            reading = files.peek(words[1])
            if reading is not None and len(reading.text.content) <= self._context.limits.output_chars:
                return files.read(words[1]).path
        return ""

    async def _with_instructions(self, result: Result, path: str) -> Result:
        """The result with the AGENTS.md files of folders that are looked into for the first time."""
        if not path:
            return result
        try:
            inside = self._context.workspace.root.locate(path)
        except AgentError:
            return result
        found = await asyncio.to_thread(self._instructions.below, inside)
        for each in found:
            await self._emit(Loaded("instructions", each.path, each.chars, each.cut))
        told = [each.told() for each in found]
        return replace(result, text="\n\n".join([result.text, *told])) if told else result

    async def _tell(self, id: str, result: Result) -> None:
        if isinstance(result, EditResult):
            for change in result.changes:
                if change.changed:
                    await self._emit(_edited(id, change))
        elif isinstance(result, CheckResult):
            for report in result.reports:
                await self._emit(_checked(report))


def _edited(id: str, change: Change) -> Edited:
    added, removed = counts(change)
    kind: Literal["created", "edited", "removed"] = "edited"
    if change.before is None or change.after is None:
        kind = "created" if change.before is None else "removed"
    return Edited(id, change.path, kind, added, removed, show(change))


def _checked(report: CheckReport) -> Checked:
    return Checked(report.check.name, report.passed, report.why, round(report.seconds, 2), report.failures)


async def whole(work: Awaitable[T]) -> T:
    """Await something that must not be left half done: a cancel is obeyed when it is over."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
