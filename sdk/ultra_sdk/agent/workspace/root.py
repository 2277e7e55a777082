"""The project root: names become paths inside it, and files are opened so that no link leads out.

A name is resolved once (links that stay inside are followed), and the result is then walked from the root
folder by folder with ``O_NOFOLLOW``: a folder swapped for a link in between gives an error, not a write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from ..errors import NoSuchFile, OutsideWorkspace, TooLarge, WorkspaceError

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
TEMPORARY = ".ultra-"
"""How the names of our half-written files begin; what a killed process left is swept by `Root.sweep`."""


class Root:
    """A project folder. Paths inside it are strings relative to it with ``/``; it is ``"."`` itself.

    root = Root("/home/me/project")
    root.locate("src/../main.py")   # "main.py"
    root.locate("/etc/passwd")      # raises OutsideWorkspace
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.realpath(path))
        if not self.path.is_dir():
            raise NoSuchFile(str(path), "is not a folder")
        if os.open not in os.supports_dir_fd:
            raise WorkspaceError(str(path), "this system cannot open files safely; use WSL on Windows")

    def locate(self, name: str) -> str:
        """The path inside the root that ``name`` means, links resolved. Raises `OutsideWorkspace`."""
        if not name or "\0" in name:
            raise OutsideWorkspace(name.replace("\0", "\\0") or "''", "is not a file name")
        try:
            real = os.path.realpath(os.path.join(self.path, name))
        except (OSError, ValueError) as error:
            raise WorkspaceError(name, f"cannot be resolved: {error}") from None
        if real == str(self.path):
            return "."
        prefix = str(self.path).rstrip("/") + "/"
        if not real.startswith(prefix):
            raise OutsideWorkspace(name, f"is outside the project {self.path}")
        return real.removeprefix(prefix)

    @contextlib.contextmanager
    def parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """An open descriptor of the folder of ``path`` and the last part of its name."""
        *folders, name = path.split("/")
        with explained(path):
            fd = os.open(self.path, FOLDER)
            try:
                for folder in folders:
                    if create:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(folder, dir_fd=fd)
                    inner = os.open(folder, FOLDER | NOFOLLOW, dir_fd=fd)
                    os.close(fd)
                    fd = inner
                yield fd, name
            finally:
                os.close(fd)

    def lstat(self, path: str) -> os.stat_result | None:
        """What is at ``path``, links not followed; None if nothing is."""
        try:
            with self.parent(path) as (fd, name):
                return os.stat(name, dir_fd=fd, follow_symlinks=False)
        except NoSuchFile:
            return None

    def read(self, path: str, limit: int) -> tuple[bytes, int]:
        """A regular file's bytes and permission bits. Raises `NoSuchFile`, `TooLarge`, `OutsideWorkspace`."""
        with self.parent(path) as (fd, name):
            return read_at(fd, name, path, limit)

    def write(self, path: str, data: bytes, mode: int | None = None, *, new: bool = False) -> None:
        """Replace a file in one step; with ``new``, fail if there is one. Folders are created.

        Without ``mode`` a new file gets what the umask allows. A reader, and a `kill -9` at any moment,
        sees the old content or the new one.
        """
        with self.parent(path, create=True) as (fd, name):
            half = f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}.tmp"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
            out = os.open(half, flags, 0o666 if mode is None else 0o600, dir_fd=fd)
            try:
                with os.fdopen(out, "wb") as file:
                    file.write(data)
                    file.flush()
                    _take_after(file.fileno(), fd, name)
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                    os.fsync(file.fileno())
                if new:
                    os.link(half, name, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
                else:
                    os.rename(half, name, src_dir_fd=fd, dst_dir_fd=fd)
                    half = ""
            finally:
                if half:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(half, dir_fd=fd)

    def unlink(self, path: str) -> None:
        """Remove a file or a link."""
        with self.parent(path) as (fd, name):
            os.unlink(name, dir_fd=fd)

    def sweep(self) -> None:
        """Remove half-written files whose process is gone."""
        for folder, _, names in os.walk(self.path):
            for name in names:
                owner = name.removeprefix(TEMPORARY).partition("-")[0]
                if (
                    name.startswith(TEMPORARY)
                    and name.endswith(".tmp")
                    and owner.isdigit()
                    and not _lives(int(owner))
                ):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(folder, name))


def _take_after(new: int, folder: int, name: str) -> None:
    """Give the open file ``new`` the owner of the one that it replaces, as far as we may."""
    if hasattr(os, "fchown"):
        with contextlib.suppress(OSError):
            old = os.stat(name, dir_fd=folder, follow_symlinks=False)
            own = os.fstat(new)
            if (old.st_uid, old.st_gid) != (own.st_uid, own.st_gid):
                os.fchown(new, old.st_uid, old.st_gid)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def read_at(fd: int, name: str, path: str, limit: int) -> tuple[bytes, int]:
    """The bytes and permission bits of the regular file ``name`` in the open folder ``fd``."""
    flags = os.O_RDONLY | NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with explained(path), os.fdopen(os.open(name, flags, dir_fd=fd), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise WorkspaceError(
                path, "is a folder" if stat.S_ISDIR(found.st_mode) else "is not a regular file"
            )
        data = file.read(limit + 1)
        if len(data) > limit:
            raise TooLarge(path, f"is larger than {limit:,} bytes")
        return data, stat.S_IMODE(found.st_mode)


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turn what the system says about ``path`` into our errors."""
    try:
        yield
    except FileNotFoundError:
        raise NoSuchFile(path, "there is no such file") from None
    except FileExistsError:
        raise
    except IsADirectoryError:
        raise WorkspaceError(path, "is a folder") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise OutsideWorkspace(path, "leads through a link that cannot be followed") from None
        if error.errno == errno.ENOTDIR:
            raise WorkspaceError(path, "leads through something that is not a folder") from None
        raise WorkspaceError(path, (error.strerror or str(error)).lower()) from error
