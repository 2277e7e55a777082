"""How clients find a running server on this machine: one small private file per served model.

The server writes it when it is ready and removes it when it leaves; both sides need the folder, the names
and the struct, so they live here. The file carries the token: folder 0700, file 0600.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

import msgspec

DEFAULT_MODEL = "qwen2.5-coder-1.5b"
"""What is served when nobody names a model."""

SOCKET_PATH_BYTES = 103
"""The longest socket path that every platform binds (`sun_path` has 104 bytes on macOS, 108 on Linux)."""


class RuntimeInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where one server listens, and the token it wants. ``started`` is Unix time in seconds."""

    pid: int
    token: str
    model: str
    """The model's own name, as in ``hello``."""
    name: str
    """What the server was asked to serve: a name, ``org/name`` or a path. Its `slug` names the files."""
    protocol: int
    server: str
    started: float
    unix: str | None = None
    host: str | None = None
    port: int | None = None

    def alive(self) -> bool:
        """Whether the process exists. Whether it answers is for a connection to find out."""
        return pid_alive(self.pid)

    def serves(self, model: str) -> bool:
        """Whether ``model``, in any of the forms a person may write it, is this server's."""
        return slug(model) in (slug(self.name), slug(self.model))


class UnsafeFolder(OSError):
    """The runtime folder cannot be made private: it is a link, or belongs to somebody else."""


def runtime_dir() -> Path:
    """The folder of runtime files; not created. ``ULTRA_RUNTIME_DIR`` overrides the platform's choice."""
    if override := os.environ.get("ULTRA_RUNTIME_DIR"):
        return Path(override).expanduser().absolute()
    if xdg := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(xdg) / "ultra"
    import platformdirs

    # Not user_runtime_dir: without XDG_RUNTIME_DIR it is /run/user/UID, which may not exist and which
    # nobody but the login manager may create.
    return Path(platformdirs.user_cache_dir("ultra", appauthor=False)) / "run"


def private_dir(path: Path) -> Path:
    """Create ``path`` with mode 0700, or repair its mode. Raises `UnsafeFolder` if it is not ours."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeFolder(f"{path} is not a folder")
    if os.name == "posix":
        if found.st_uid != os.geteuid():
            raise UnsafeFolder(f"{path} belongs to another user (uid {found.st_uid})")
        if stat.S_IMODE(found.st_mode) != 0o700:
            path.chmod(0o700)
    return path


def slug(model: str) -> str:
    """A file name for a model: lower case, at most 48 characters, distinct for distinct paths."""
    if (path := _as_path(model)) is not None:
        return f"{_plain(path.stem)[:39]}-{_digest(str(path))}"
    plain = _plain(model)
    return plain if len(plain) <= 48 else f"{plain[:39]}-{_digest(plain)}"


def canonical(model: str) -> str:
    """The same model, named so that it means the same in every working folder."""
    path = _as_path(model)
    return model if path is None else str(path)


def _as_path(model: str) -> Path | None:
    # os.path rather than Path: these take any text, be it "~nobody" or longer than a file name can be.
    path = os.path.expanduser(model)
    if os.path.isabs(path) or model.startswith((".", "~")) or os.path.isfile(path):
        return Path(os.path.realpath(path))
    return None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-.") or "model"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def info_path(model: str, folder: Path | None = None) -> Path:
    return (folder or runtime_dir()) / f"{slug(model)}.json"


def lock_path(model: str, folder: Path | None = None) -> Path:
    """Locked by the server of ``model`` for its whole life, from before it loads until it has cleaned up."""
    return (folder or runtime_dir()) / f"{slug(model)}.lock"


def socket_path(model: str, folder: Path | None = None) -> Path:
    """Where the socket of ``model`` goes: beside the runtime file, or somewhere shorter if that is too long.

    The caller makes the parent private (see `private_dir`).
    """
    folder = folder or runtime_dir()
    short = Path(tempfile.gettempdir()) / f"ultra-{os.getuid() if os.name == 'posix' else 0}"
    name = slug(model)
    for path in (
        folder / f"{name}.sock",
        folder / f"{_digest(name)}.sock",
        short / f"{_digest(str(folder) + name)}.sock",
    ):
        if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
            return path
    return Path("/tmp") / short.name / f"{_digest(str(folder) + name)}.sock"


def write_info(info: RuntimeInfo, folder: Path | None = None) -> Path:
    """Write the runtime file of a server, whole or not at all, readable by its owner alone."""
    folder = private_dir(folder or runtime_dir())
    final = info_path(info.name, folder)
    part = folder / f".{final.name}.{secrets.token_hex(8)}"
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(info))
        os.replace(part, final)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return final


def read_info(path: Path) -> RuntimeInfo | None:
    """The runtime file at ``path``; None when it is missing, unreadable or not one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RuntimeInfo)
    except (OSError, msgspec.DecodeError):
        return None


def running(model: str | None = None, folder: Path | None = None) -> list[RuntimeInfo]:
    """The servers whose process lives, newest first; of one model if ``model`` is given."""
    folder = folder or runtime_dir()
    if not folder.is_dir():
        return []
    found = (read_info(path) for path in folder.glob("*.json"))
    live = [i for i in found if i is not None and i.alive() and (model is None or i.serves(model))]
    return sorted(live, key=lambda info: info.started, reverse=True)


def pid_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    if os.name != "posix":  # there, os.kill(pid, 0) would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
