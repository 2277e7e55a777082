"""One turn's work: asking, doing, checking, until the task is done or a bound is reached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from ultra_sdk import Client
from ultra_sdk.errors import PromptTooLong

from .acting import Acting
from .asking import Said, ask
from .bounds import Bounds, Exhausted, Progress
from .compact import ASK, compact
from .conversation import Called, Entry, chars
from .events import Compacted, Planned, Step
from .gate import Gate
from .guess import Guess, paths_in
from .memory import Memory
from .reply import Driver, Reply
from .tools.base import Result
from .tools.edit import EditResult
from .turn import Emit
from .verify import Outcome, Verifier

MOST_CHARS_PER_TOKEN = 6.0
SUMMARY_TOKENS = 400
ANSWER_SHARE = 4
"""The part of the context that an answer may take, as 1 / n."""
SHRINK_ATTEMPTS = 2
STUCK_TEMPERATURE = 0.7
"""After an answer that led nowhere: drawn greedily the next one would be much the same."""
EDITS = ("write", "edit")
AGAIN = "\n[You did the same before, with the same result. Do something else.]"
CIRCLING = "your answer said the same again and again and was stopped; answer with one action"
CUT = "your answer was cut off at its limit of {tokens:,} tokens; do a smaller part at a time"
EMPTY = "your answer was empty; do the next action, or end with a line DONE:"


class Run:
    """The loop of one turn. Everything that has to outlive it is in ``memory``."""

    def __init__(
        self,
        engine: Client,
        driver: Driver,
        memory: Memory,
        acting: Acting,
        gate: Gate,
        guess: Guess,
        project: str,
        bounds: Bounds,
        options: Mapping[str, Any],
        emit: Emit,
    ) -> None:
        self._engine = engine
        self._driver = driver
        self._memory = memory
        self._acting = acting
        self._gate = gate
        self._guess = guess
        self._opening = driver.opening(project)
        self._options = options
        self._emit = emit
        self._plan: tuple[str, ...] = ()
        self.progress = Progress(bounds)
        self._stuck = False
        self._verifier = Verifier(acting, memory, self.progress)

    async def before(self, task: str) -> str:
        """What is worth knowing before the task. Raises as `work` does."""
        return await self._verifier.before(task)

    async def work(self) -> Outcome:
        """Go on until the task is done. Raises `Exhausted`, `NobodyToAsk`, `EngineError`, `AgentError`."""
        began, waited = time.monotonic(), self._gate.waited
        while True:
            spent = time.monotonic() - began - (self._gate.waited - waited)
            left = self.progress.bounds.seconds - spent
            if left <= 0:
                raise Exhausted(f"it took {spent:,.0f} s, the limit")
            await self._emit(Step(self.progress.step()))
            reply = await self._asked(left)
            if reply is not None and (outcome := await self._done(reply)) is not None:
                return outcome

    # --- asking -------------------------------------------------------------------------------------

    async def _asked(self, seconds: float) -> Reply | None:
        """The next answer, read; None if it could not be understood and the model was told so."""
        said = Said()
        try:
            async with asyncio.timeout(seconds):
                await self._ask(said)
        except TimeoutError:
            raise Exhausted(f"it took {self.progress.bounds.seconds:,.0f} s, the limit") from None
        finally:
            self.progress.output_tokens += said.output_tokens
            reply = self._driver.read(said.text, said.calls, self._guess)
            if said.text.strip() or reply.calls:
                self._memory.answer(said.text)
        problem = self._problem(said, reply)
        self.progress.answered(not problem)
        self._stuck = bool(problem)
        if problem:
            self._memory.tell(problem)
            return None
        if reply.plan and reply.plan != self._plan:
            self._plan = reply.plan
            await self._emit(Planned(reply.plan))
        return reply

    async def _ask(self, said: Said) -> None:
        budget = self._budget()
        if chars(self._memory.entries) > budget:
            await self._compact(budget)
        for attempt in range(SHRINK_ATTEMPTS + 1):
            try:
                return await self._stream(said)
            except PromptTooLong:
                if attempt == SHRINK_ATTEMPTS or not self._memory.entries:
                    raise
                await self._compact(min(budget, chars(self._memory.entries)) * 2 // 3, by_rule=True)

    async def _stream(self, said: Said) -> None:
        messages = [*self._opening, *self._driver.messages(self._memory.entries)]
        options = {**self._options, **self._driver.options()}
        options.setdefault("max_tokens", self._answer_tokens())
        if self._stuck:
            options.setdefault("temperature", STUCK_TEMPERATURE)
        await ask(self._engine, messages, options, self._driver.enough, self._emit, said)
        if said.prompt_tokens:
            size = sum(len(message.content or "") + 24 for message in messages)
            rate = min(max(size / said.prompt_tokens, 1.0), MOST_CHARS_PER_TOKEN)
            self._memory.chars_per_token = rate

    def _answer_tokens(self) -> int:
        context = self._engine.info.context_tokens
        bound = self.progress.bounds.answer_tokens
        return min(bound, context // ANSWER_SHARE) if context else bound

    def _budget(self) -> int:
        """Characters of conversation that fit beside the beginning and an answer."""
        context = self._engine.info.context_tokens
        if not context:
            return 1 << 40
        opening = sum(len(message.content or "") + 24 for message in self._opening)
        room = (context - self._answer_tokens()) * self._memory.chars_per_token * 0.9
        return max(int(room) - opening, 500)

    def _problem(self, said: Said, reply: Reply) -> str:
        if said.circling:
            return CIRCLING
        if said.cut and not reply.calls:
            return CUT.format(tokens=said.output_tokens)
        if reply.problems or said.broken:
            return "\n".join([*reply.problems, *said.broken])
        if not reply.calls and reply.done is None and not reply.words.strip():
            return EMPTY
        return ""

    async def _compact(self, budget: int, *, by_rule: bool = False) -> None:
        before = chars(self._memory.entries)
        entries, how = await compact(self._memory.entries, budget, None if by_rule else self._summary)
        self._memory.replace(entries)
        rate = self._memory.chars_per_token
        await self._emit(Compacted(int(before / rate), int(chars(entries) / rate), how))

    async def _summary(self, entries: list[Entry]) -> str:
        """The model's notes; asked at the end of the conversation as it stands, which the engine has read."""
        messages = self._driver.messages([*entries, Entry("user", ASK)])
        async with self._engine.stream(
            messages=[*self._opening, *messages], **{**self._options, "max_tokens": SUMMARY_TOKENS}
        ) as stream:
            result = await stream.result()
        self.progress.output_tokens += result.usage.output_tokens
        return result.text

    # --- doing --------------------------------------------------------------------------------------

    async def _done(self, reply: Reply) -> Outcome | None:
        """Do what an answer asks for; how it ended if that was the end."""
        calls = [Called(self._memory.next_id(), call.name, call.arguments) for call in reply.calls]
        all_ok = True
        for called, call in zip(calls, reply.calls, strict=True):
            self._memory.call(called)
            result = await self._acting.run(called.id, call)
            self._bring_up(called)
            text = result.text + (AGAIN if self._count(called, result) > 1 else "")
            self._memory.result(called, result.ok, text)
            repeated = isinstance(result, EditResult) and reply.done is not None and self._acting.changed
            self._stuck = self._stuck or (called.tool in EDITS and not result.ok)
            all_ok = all_ok and (result.ok or repeated)  # what was written before, said once more at the end
        if all_ok:
            await self._verifier.after(any(call.name in EDITS for call in reply.calls))
        finished = reply.done is not None or not reply.calls
        if not finished or not all_ok:
            return None
        outcome = self._verifier.judged(reply.done or reply.words.strip())
        self._stuck = self._stuck or outcome is None
        return outcome

    def _bring_up(self, called: Called) -> None:
        """The files that a command names may be meant by a block without a name."""
        if called.tool == "bash" and isinstance(called.arguments, str):
            known = [path for path in paths_in(called.arguments) if self._guess.peek(path) is not None]
            self._guess.named.extend(known)

    def _count(self, called: Called, result: Result) -> int:
        """Count a call against the bounds; how often it was made with this result."""
        if called.tool in EDITS:
            self.progress.edited(result.ok)
            self._verifier.refused = not result.ok
            if result.ok:
                self.progress.changed()
        return self.progress.called(called.tool, called.arguments, result.text)
