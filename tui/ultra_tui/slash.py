"""The commands of the app."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ultra_tui.agent.slash import agent_commands
from ultra_tui.commands import Command, Registry
from ultra_tui.transcript.blocks import DrawnBlock, NoticeBlock
from ultra_tui.welcome import help_lines

if TYPE_CHECKING:
    from ultra_tui.app import ChatApp


def make_registry(app: ChatApp) -> Registry:
    """All slash commands, acting on ``app``."""
    actions = _Actions(app)
    return Registry(
        [
            *(agent_commands(app.agent, app) if app.agent is not None else []),
            Command("help", "list the commands and keys", actions.help),
            Command("new", "begin a new conversation", lambda _: app.new_conversation()),
            Command("clear", "clear the screen, keep the conversation", lambda _: app.clear_screen()),
            Command("copy", "copy the last answer as the model wrote it", actions.copy),
            Command("export", "write the conversation to a Markdown file", actions.export, "file"),
            Command("model", "show the model, or change to another one", actions.model, "name"),
            Command("theme", "change the colours", actions.theme, "name"),
            Command("exit", "quit", lambda _: app.exit()),
            Command("quit", "quit", lambda _: app.exit()),
        ]
    )


class _Actions:
    """What the longer commands do."""

    def __init__(self, app: ChatApp) -> None:
        self._app = app

    def help(self, _: str) -> None:
        commands = list(self._app.registry.commands.values())
        self._app.transcript.add(DrawnBlock(lambda width, palette: help_lines(commands, width, palette)))

    def copy(self, _: str) -> None:
        answer = self._app.session.last_answer
        if answer:
            self._app.copy(answer)
        else:
            self._app.notify("There is no answer to copy yet.")

    def export(self, name: str) -> None:
        turns = self._app.session.messages
        if not turns:
            self._app.notify("There is nothing to write yet.")
            return
        path = Path(name or "ultra-chat.md").expanduser()
        signs = {"user": "## You", "assistant": "## Answer"}
        text = "\n\n".join(f"{signs[turn.role]}\n\n{turn.content}" for turn in turns) + "\n"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            self._say(f"{path} exists already: give another name, /export name.md")
        except OSError as error:
            self._say(f"{path} could not be written: {error.strerror}")
        else:
            self._say(f"Written to {path.resolve()}")

    def model(self, name: str) -> None:
        app = self._app
        if not name:
            hello = app.engine.hello
            known = f"{hello.model}, {hello.context_tokens:,} tokens of context" if hello else "No engine yet"
            self._say(known)
            return
        if app.session.busy:
            app.notify("An answer is coming: Esc stops it.")
            return
        app.run_worker(self._switch(name), group="switch", exclusive=True)

    async def _switch(self, name: str) -> None:
        await self._app.engine.switch(name)
        self._app.engine_changed()
        self._app.reconnect()

    def theme(self, name: str) -> None:
        app = self._app
        if not name:
            app.action_change_theme()
        elif name in app.available_themes:
            app.theme = name
        else:
            self._say(f"There is no theme {name}: {', '.join(sorted(app.available_themes))}")

    def _say(self, text: str) -> None:
        self._app.transcript.add(NoticeBlock(text))
