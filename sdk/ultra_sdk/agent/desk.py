"""What an open session holds: the files, the checkpoints, the memory, a private folder."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

from .checkpoints.checkpoints import Checkpoints
from .instructions import InstructionFiles
from .memory import Memory
from .redact import Redactor
from .tools.registry import Registry
from .tools.standard import standard
from .transcript import Transcript
from .workspace.files import Workspace
from .workspace.root import Root


class Desk:
    """Opened by `Agent.open`. Raises `AgentError` if the session is open in another process."""

    def __init__(self, root: Root, session: str, transcript: Path, data: Path | None, max_chars: int) -> None:
        with contextlib.ExitStack() as opened:
            record = Transcript(transcript, Redactor.of(root.path))
            opened.callback(record.close)
            self.checkpoints = Checkpoints(root.path, session, folder=data)
            opened.callback(self.checkpoints.close)
            self.scratch = Path(tempfile.mkdtemp(prefix="ultra-agent-"))
            opened.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self.memory = Memory(record, {"root": str(root.path)})
            self._opened = opened.pop_all()
        self.workspace = Workspace(root.path, scratch=self.scratch, before_write=self.checkpoints.protect)
        self.registry = Registry(standard())
        self.instructions = InstructionFiles(root, max_chars)
        self.project: str | None = None
        """What the project's files tell agents, once they were loaded."""
        self.briefed = self.memory.resumed
        """Whether the model knows which files there are."""

    def close(self) -> None:
        """Let others have the session."""
        self._opened.close()
