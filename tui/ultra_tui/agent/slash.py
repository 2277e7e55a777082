"""The commands that only the agent has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ultra_tui.commands import Command

if TYPE_CHECKING:
    from ultra_tui.agent.pane import AgentPane
    from ultra_tui.app import ChatApp


def agent_commands(pane: AgentPane, app: ChatApp) -> list[Command]:
    """Undo and redo of turns, the mode, and the way between agent and chat."""
    return [
        Command("undo", "take back what the last turn did to the files", lambda _: pane.session.undo()),
        Command("redo", "bring back what was undone", lambda _: pane.session.redo()),
        Command("mode", "go on to the next permission mode", lambda _: app.action_next_mode()),
        Command("chat", "chat alone, without files and commands", lambda _: app.switch_to(app.chat)),
        Command("agent", "work with the agent again", lambda _: app.switch_to(pane.session)),
    ]
