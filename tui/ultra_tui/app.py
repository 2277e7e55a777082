"""The full-screen app: transcript, prompt and status line around a session, the agent's or a plain chat's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

from textual import events
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Static
from ultra_sdk import EngineError, ToolCall

from ultra_tui.agent.dial import AgentDial
from ultra_tui.agent.pane import AgentPane
from ultra_tui.agent.session import AgentSession
from ultra_tui.clock import Clock
from ultra_tui.commands import Call, Unknown
from ultra_tui.compat import teach_newline_keys
from ultra_tui.link import EngineLink
from ultra_tui.meter import per_second, seconds
from ultra_tui.prompt import Prompt
from ultra_tui.session import Outcome, Session
from ultra_tui.slash import make_registry
from ultra_tui.status import StatusLine
from ultra_tui.text import clean
from ultra_tui.themes import DARK, LIGHT
from ultra_tui.transcript.blocks import DrawnBlock, Kind, NoticeBlock, UserBlock
from ultra_tui.transcript.view import Transcript
from ultra_tui.welcome import welcome_lines

AGAIN_SECONDS = 2.0
"""How soon the second Ctrl+C must come to quit."""


class ChatApp(App[None]):
    """A chat with one engine, or an agent at work. It is the `View` of the chat's session."""

    TITLE = "ultra-chat"
    CSS = """
    Screen { background: $background; }
    #queue, #hints { height: auto; max-height: 12; padding: 0 2; color: $foreground 60%; display: none; }
    #queue.shown, #hints.shown { display: block; }
    """
    BINDINGS = [
        Binding("ctrl+c", "interrupt", "Stop or quit", show=False, priority=True),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
        Binding("escape", "stop", "Stop", show=False),
        Binding("ctrl+r", "toggle_thoughts", "Show the reasoning", show=False),
    ]

    def __init__(
        self,
        link: EngineLink,
        options: Mapping[str, Any] | None = None,
        system: str | None = None,
        agent: AgentDial | None = None,
    ) -> None:
        super().__init__()
        teach_newline_keys()
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        if "TEXTUAL_THEME" not in os.environ:
            self.theme = DARK.name
        self.engine = link
        self.chat = Session(link, self, options, system)
        self.agent = AgentPane(self, agent) if agent is not None else None
        self.session: Session | AgentSession = self.agent.session if self.agent is not None else self.chat
        self.registry = make_registry(self)
        self.transcript = Transcript(id="transcript")
        self.prompt = Prompt(id="prompt")
        self.status = StatusLine(id="status")
        self.clock: Clock | None = None
        self._welcome = DrawnBlock(self._draw_welcome, gap=False)
        self._interrupted = -AGAIN_SECONDS

    def compose(self) -> ComposeResult:
        yield self.transcript
        if self.agent is not None:
            yield self.agent.card
        yield Static(id="queue", markup=False)
        yield Static(id="hints", markup=False)
        yield self.prompt
        yield self.status

    def on_mount(self) -> None:
        self.clock = Clock(self.screen)
        self.transcript.attach(self.clock)
        self.clock.add(self.status.tick)
        self.status.meter = self.session.meter
        if self.agent is not None:
            self.agent.refresh_names()
        self.transcript.add(self._welcome)
        self.app_resume_signal.subscribe(self, lambda _: self._repaint())
        self.prompt.focus()
        self.engine.on_change = self.engine_changed
        self.reconnect()
        self._hint_keys()

    def _repaint(self) -> None:
        """After Ctrl+Z and fg the terminal shows nothing of ours any more."""
        self.screen.refresh(layout=True)
        self.refresh(layout=True)

    async def on_unmount(self) -> None:
        self.engine.on_change = lambda: None
        if self.agent is not None:
            await self.agent.session.close()
        await self.chat.close()

    def _draw_welcome(self, width: int, palette: Any) -> list[Any]:
        hello = self.engine.hello
        model = hello.model if hello else (self.engine.model or "")
        return welcome_lines(clean(model), hello.context_tokens if hello else 0, width, palette)

    # --- the engine ---------------------------------------------------------------------------------

    def reconnect(self) -> None:
        """Reach the engine in the background; what goes wrong is told in the transcript."""
        if not self.session.busy:
            self.session.meter.state = "starting"
        self.run_worker(self._connect(), group="connect", exclusive=True, exit_on_error=True)

    async def _connect(self) -> None:
        try:
            await self.engine.client()
        except EngineError as error:
            if not self.session.busy:  # a running turn tells it itself
                self.session.meter.state = "offline"
                self.warn(f"{error}", error=True)
        else:
            if not self.session.busy:
                self.session.meter.state = "ready"
        self.engine_changed()

    def engine_changed(self) -> None:
        """Show what the link says of the engine."""
        hello = self.engine.hello
        self.session.meter.note = self.engine.status
        self.session.meter.context_total = hello.context_tokens if hello else 0
        self.status.model = clean(hello.model if hello else self.engine.model or "")
        self.transcript.redraw(self._welcome)
        self.changed()

    # --- the view of the session --------------------------------------------------------------------

    def asked(self, text: str) -> None:
        self.transcript.add(UserBlock(text))
        self.transcript.begin_answer()
        self.transcript.follow()
        self.changed()

    def fragment(self, text: str) -> None:
        self.transcript.fragment(text)

    def thought(self, text: str) -> None:
        self.transcript.thought(text)

    def called(self, piece: ToolCall) -> None:
        self.transcript.called(piece)

    def answered(self, outcome: Outcome) -> None:
        kind: Kind = "info" if outcome in ("stop", "length") else "stopped"
        footer = NoticeBlock(self._footer(outcome), kind) if outcome != "failed" else None
        self.transcript.end_answer(footer)

    def _footer(self, outcome: Outcome) -> str:
        meter = self.session.meter
        parts = [f"{meter.output_tokens:,} token{'' if meter.output_tokens == 1 else 's'}"]
        if outcome == "cancelled":
            parts.insert(0, "stopped")
        if meter.rate is not None:
            parts.append(per_second(meter.rate))
        if meter.ttft is not None:
            parts.append(f"first token {seconds(meter.ttft)}")
        return " · ".join(parts)

    def warn(self, text: str, error: bool = False) -> None:
        self.transcript.add(NoticeBlock(text, "error" if error else "warning"))

    def returned(self, texts: list[str]) -> None:
        draft = [self.prompt.text] if self.prompt.text.strip() else []
        pieces = [self.prompt.pastes.shown(text) for text in texts]
        self.prompt.show("\n".join([*draft, *pieces]))

    def changed(self) -> None:
        self.status.queued = len(self.session.queue)
        self.status.mode = self.session.mode if isinstance(self.session, AgentSession) else ""
        rows = [_one_row(text) for text in self.session.queue]
        self._show_rows("#queue", [f"↳ queued: {row}" for row in rows])
        self._hint_keys()
        if self.clock is not None:
            self.clock.wake()

    def _show_rows(self, selector: str, rows: list[str]) -> None:
        widget = self.query_one(selector, Static)
        text = "\n".join(rows)
        if str(widget.content) != text:
            widget.update(text)
            widget.set_class(bool(rows), "shown")

    def _hint_keys(self) -> None:
        keys = "Esc stops · Enter queues" if self.session.busy else "Enter sends · /help"
        if self.prompt.border_subtitle != keys:
            self.prompt.border_subtitle = keys

    # --- the prompt ---------------------------------------------------------------------------------

    def on_prompt_sent(self, event: Prompt.Sent) -> None:
        match self.registry.parse(event.text):
            case Call(command, argument):
                self.prompt.accept()
                command.run(argument)
            case Unknown(name):
                self.notify(f"No command {name}; with a space before it, it is sent as text.", markup=False)
            case None:
                self.prompt.accept()
                self.session.say(event.text.strip("\n"))

    def on_prompt_completing(self) -> None:
        before = self.prompt.before_cursor
        named = self.agent.completed(before) if self.agent is not None else None
        if named is not None:
            self.prompt.replace_before_cursor(named)
            return
        text = self.registry.complete(self.prompt.text)
        if text != self.prompt.text:
            self.prompt.show(text)

    def on_prompt_queue_wanted(self) -> None:
        text = self.session.unqueue()
        if text is not None:
            self.prompt.show(self.prompt.pastes.shown(text))
        else:
            self.prompt.walk_back()

    def on_text_area_changed(self) -> None:
        matches = self.registry.matches(self.prompt.text)
        widest = max((len(command.usage) for command in matches), default=0)
        rows = [f"{c.usage:<{widest}}  {c.help}" for c in matches]
        if self.agent is not None and not rows:
            rows = [clean(path) for path in self.agent.offered(self.prompt.before_cursor)]
        self._show_rows("#hints", rows)

    def on_click(self, event: events.Click) -> None:
        self._focus()

    def on_descendant_blur(self) -> None:
        if self.screen is self.prompt.screen and self.screen.focused is None:
            self._focus()

    def _focus(self) -> None:
        """Keys go to the question that waits, or else to the prompt."""
        asked = self.agent is not None and self.agent.card.request is not None
        (self.agent.card if asked and self.agent is not None else self.prompt).focus()

    # --- actions ------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Stop the answer; idle it does nothing."""
        self.session.cancel()

    def action_interrupt(self) -> None:
        """Copy what is selected, else stop the answer, and quit when asked twice."""
        selected = self.screen.get_selected_text() or self.prompt.selected_text
        if selected:
            self.copy(selected)
            self.screen.clear_selection()
            return
        if self.session.cancel():
            return
        if monotonic() - self._interrupted < AGAIN_SECONDS:
            self.exit()
        self._interrupted = monotonic()
        self.notify("Press Ctrl+C again to quit.", timeout=AGAIN_SECONDS)

    def action_next_mode(self) -> None:
        """Go on to the agent's next permission mode."""
        if isinstance(self.session, AgentSession):
            self.session.next_mode()

    def switch_to(self, session: Session | AgentSession) -> None:
        """Talk to the agent, or chat."""
        if self.session.busy:
            self.notify("Something is at work: Esc stops it.")
            return
        session.meter.state = self.session.meter.state
        self.session = session
        self.status.meter = session.meter
        self.engine_changed()

    def copy(self, text: str) -> None:
        """Hand a text to the terminal's clipboard (OSC 52)."""
        self.copy_to_clipboard(text)
        self.notify(f"Handed {len(text):,} characters to the terminal's clipboard.")

    def new_conversation(self) -> None:
        """Stop, forget the turns and show the welcome."""
        self.session.cancel()
        self.session.forget()
        self.clear_screen()

    def clear_screen(self) -> None:
        """Empty the transcript; the turns stay in the conversation."""
        if self.session.busy:
            self.notify("An answer is coming: Esc stops it.")
            return
        self.transcript.clear()
        self.transcript.add(self._welcome)

    def action_toggle_thoughts(self) -> None:
        """Show all of the reasoning, or a line of it again."""
        self.transcript.toggle_thoughts()

    def action_page(self, direction: int) -> None:
        """Scroll the transcript by a page."""
        if direction < 0:
            self.transcript.scroll_page_up(animate=False)
        else:
            self.transcript.scroll_page_down(animate=False)

    def action_to_start(self) -> None:
        """Scroll to the first line."""
        self.transcript.scroll_home(animate=False)

    def action_to_end(self) -> None:
        """Scroll to the last line and follow it."""
        self.transcript.follow()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for command in self.registry.commands.values():
            if not command.argument.startswith("<"):
                yield SystemCommand(f"/{command.name}", command.help, lambda run=command.run: run(""))
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)


def _one_row(text: str) -> str:
    row = " ".join(clean(text).split())
    return row if len(row) <= 60 else f"{row[:59]}…"
