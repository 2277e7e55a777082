"""Where the agent keeps what outlives a session."""

from __future__ import annotations

import os
from pathlib import Path


def data_dir() -> Path:
    """The user's data folder; not created. ``ULTRA_DATA_DIR`` overrides the platform's choice."""
    if override := os.environ.get("ULTRA_DATA_DIR"):
        return Path(override).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_data_dir("ultra", appauthor=False))
