"""What a command may do."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Level = Literal["bubblewrap", "landlock", "seatbelt", "advisory"]
"""How a command is confined; ``advisory`` is not at all: then the rules are only asked, never enforced."""

CREDENTIALS = (
    ".ssh .gnupg .aws .azure .kube .netrc .git-credentials .npmrc .pypirc .password-store .mozilla "
    ".config/gcloud .config/gh .config/google-chrome .config/chromium .docker/config.json "
    ".cargo/credentials .cargo/credentials.toml .local/share/keyrings"
).split()


@dataclass(frozen=True, slots=True)
class Policy:
    """The bounds of one command.

    Policy(root=Path("/home/me/project"), tmp=Path("/tmp/ultra-x"), seconds=30)

    ``root`` and ``tmp`` are writable and nothing else is; all of the system but ``hidden`` can be read.
    """

    root: Path
    tmp: Path
    write: bool = True
    """Whether ``root`` may be written."""
    network: bool = False
    hidden: tuple[Path, ...] = ()
    """What cannot be read, such as keys. Inside ``root`` this needs bubblewrap or Seatbelt."""
    read_only: tuple[Path, ...] = ()
    """What inside ``root`` cannot be written. Needs bubblewrap or Seatbelt."""
    seconds: float = 120.0
    memory_bytes: int = 4 << 30
    """For all its processes together."""
    pids: int = 256
    file_bytes: int = 2 << 30
    """The largest file that it may write."""


def private(home: Path | None = None) -> tuple[Path, ...]:
    """Where a person's keys and sessions usually lie, and our own server's tokens: for `Policy.hidden`."""
    from ...protocol.runtime import runtime_dir
    from ..folders import data_dir

    home = home or Path(os.path.expanduser("~"))
    return (*(home / name for name in CREDENTIALS), runtime_dir(), data_dir())


def applicable(paths: tuple[Path, ...], policy: Policy) -> list[Path]:
    """Those of ``paths`` that exist and do not hold the folders that the command works in; links resolved."""
    real = {Path(os.path.realpath(path)) for path in paths if os.path.lexists(path)}
    works_in = (Path(os.path.realpath(policy.root)), Path(os.path.realpath(policy.tmp)))
    return sorted(path for path in real if not any(work.is_relative_to(path) for work in works_in))
