"""The environment of a command: nobody to ask, no pager, no editor, no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|_KEY$|_PAT$|_AUTH$", re.I
)
"""Names of variables that are kept from commands, and whose values are kept out of transcripts."""
DROPPED = re.compile(
    r"BASH_ENV|ENV|BASH_FUNC_.*|PROMPT_COMMAND|SSH_AUTH_SOCK|SSH_AGENT_PID|GPG_AGENT_INFO|DBUS_.*|DISPLAY|"
    r"WAYLAND_DISPLAY|XAUTHORITY|DOCKER_HOST|TMUX.*|XDG_RUNTIME_DIR|GIT_(?:DIR|WORK_TREE|INDEX_FILE)"
)
QUIET = {
    "CI": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "EDITOR": "true",
    "GIT_EDITOR": "true",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "MANPAGER": "cat",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "PIP_NO_INPUT": "1",
    # A cached module is taken for fresh if its source has the same second and size: edits are quicker.
    "PYTHONDONTWRITEBYTECODE": "1",
    "TERM": "dumb",
    "VISUAL": "true",
}


def environment(given: Mapping[str, str], tmp: Path) -> dict[str, str]:
    """``given`` without secrets and ways to other programs; ``tmp`` for all that is temporary."""
    kept = {k: v for k, v in given.items() if not SECRET.search(k) and not DROPPED.fullmatch(k)}
    folder = str(tmp)
    places = {"TMPDIR": folder, "TMP": folder, "TEMP": folder}
    caches = {"XDG_CACHE_HOME": f"{folder}/cache", "npm_config_cache": f"{folder}/cache/npm"}
    return kept | QUIET | places | caches
