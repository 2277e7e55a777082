"""A repository of safetensors on the hub -> a folder of the cache, whole and checked.

    models/<org>--<name>/config.json             put there last: a folder that has it is whole
    models/<org>--<name>/*.safetensors           and the sum of each beside it (see `cache.stamp`)
    models/<org>--<name>/dflash/                 a drafter, where the repository has one
    models/<org>--<name>/.partial/<sha256>       what an interrupted download left, to be resumed

Only files that the loader reads are fetched: no code, and no pickles but a drafter's mask embedding, which is
read without being run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..errors import DownloadError, ModelFileError, UnsupportedModel
from . import cache, hub_files
from .fetch import DiskFull, disk_error, download
from .hub_files import HubFile
from .index import INDEX, read_index, single_file
from .progress import Meter
from .summary import bytes_text

CONFIG = "config.json"

_SMALL = (
    *(INDEX, "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    *("special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "tokenizer.model"),
)

DRAFTER = "dflash/"
_MASK = DRAFTER + "mask_embedding.pt"

Tick = Callable[[int], None]


def is_one(files: Sequence[HubFile]) -> bool:
    """Whether a repository has a checkpoint."""
    names = [file.name for file in files if "/" not in file.name]
    return CONFIG in names and any(name.endswith(".safetensors") for name in names)


def whole(folder: Path) -> bool:
    """Whether every file of a checkpoint is there, and none was changed since it was fetched. A file whose
    stamp is out of date is hashed."""
    if not (folder / CONFIG).is_file():
        return False
    try:
        return all(_sound(folder / name) for name in _weights(folder))
    except ModelFileError:
        return False


def _weights(folder: Path) -> list[str]:
    """Raises `ModelFileError` for an index that cannot be read."""
    single = single_file([file.name for file in folder.glob("*.safetensors*")])
    return [single] if single is not None else read_index(folder / INDEX).files


def _sound(file: Path) -> bool:
    if not file.is_file():
        return False
    known = cache.noted(file)
    if known is None or cache.stamped(file) == known:
        return True
    if cache.file_sha256(file) != known:
        return False
    cache.stamp(file, known)
    return True


def pull(repo: str, files: Sequence[HubFile], folder: Path, progress: bool) -> Path:
    """The folder, after fetching what is missing of it.

    Raises `DownloadError`, `ModelFileError` for an index that lies, `UnsupportedModel` for weights that are
    spread over files without an index.
    """
    try:
        with cache.locked(folder / CONFIG, repo, progress):
            if not whole(folder):
                _Pull(repo, files, folder, progress).run()
    except DiskFull:
        shutil.rmtree(cache.partial_dir(folder / CONFIG), ignore_errors=True)
        raise
    except OSError as error:
        raise disk_error(error, folder) from error
    return folder


class _Pull:
    """One download of a repository, its folder locked."""

    def __init__(self, repo: str, files: Sequence[HubFile], folder: Path, progress: bool) -> None:
        self.repo, self.folder, self.progress = repo, folder, progress
        self.files = {file.name: file for file in files}
        self.partial = cache.partial_dir(folder / CONFIG)
        self.fetched: set[str] = set()

    def run(self) -> None:
        self.partial.mkdir(parents=True, exist_ok=True)
        wanted = [*self._model(""), *self._drafter(), self.files[CONFIG]]
        sizes = [file.size or 0 for file in wanted]
        self._check_space(wanted)
        done = 0
        with Meter(self.repo, sum(sizes), self.progress) as meter:
            for file, size in zip(wanted, sizes, strict=True):
                self._fetch(file, meter, done)
                done += size
                meter.update(done)
        shutil.rmtree(self.partial)

    def _model(self, prefix: str) -> Iterator[HubFile]:
        """The files of the checkpoint in one folder of the repository, its config apart."""
        yield from (self.files[prefix + name] for name in _SMALL if prefix + name in self.files)
        beside = [name.removeprefix(prefix) for name in self.files if name.startswith(prefix)]
        single = single_file([name for name in beside if "/" not in name])
        if single is not None:
            yield self.files[prefix + single]
            return
        if prefix + INDEX not in self.files:
            raise UnsupportedModel(f"{self.repo}: {prefix}*.safetensors are several files without {INDEX}")
        with Meter(INDEX, None, show=False) as silent:
            self._fetch(self.files[prefix + INDEX], silent, 0)
        for name in read_index(self.folder / prefix / INDEX).files:
            if prefix + name not in self.files:
                raise DownloadError(f"{self.repo}: {INDEX} lists {name}, which is not there")
            yield self.files[prefix + name]

    def _drafter(self) -> Iterator[HubFile]:
        if DRAFTER + CONFIG not in self.files:
            return
        yield from self._model(DRAFTER)
        yield from (self.files[name] for name in (_MASK, DRAFTER + CONFIG) if name in self.files)

    def _fetch(self, file: HubFile, meter: Meter, before: int) -> None:
        """Fetch one file unless it is here; ``before`` bytes of others are done."""
        target = self.folder / file.name
        if file.name in self.fetched or self._is_here(file, target, meter):
            return
        self.fetched.add(file.name)
        partial = self.partial / (file.sha256 or file.name.replace("/", "--"))
        if file.sha256 is None:
            partial.unlink(missing_ok=True)  # nothing says that the rest would be of the same file
        what = f"hub: {self.repo}/{file.name}"
        url = hub_files.url(self.repo, file.name, file.revision)
        download(url, partial, what, headers=hub_files.headers(), tick=lambda n: meter.update(before + n))
        found = cache.file_sha256(partial)
        if file.sha256 is not None and found != file.sha256:
            partial.unlink()
            wrong = f"sha256 {found[:12]}, not {file.sha256[:12]}"
            raise DownloadError(f"{what} gave another file ({wrong}), deleted; start again to resume")
        if file.size is not None and partial.stat().st_size != file.size:
            raise DownloadError(f"{what} gave {partial.stat().st_size} bytes, not {file.size}")
        target.parent.mkdir(exist_ok=True)
        partial.replace(target)
        if file.sha256 is not None:
            cache.stamp(target, found)

    def _is_here(self, file: HubFile, target: Path, meter: Meter) -> bool:
        """Whether a file that the hub knows the sum of is here; a damaged one is deleted."""
        if file.sha256 is None or not target.is_file():
            return False
        if cache.stamped(target) == file.sha256:
            return True
        if cache.file_sha256(target) == file.sha256:
            cache.stamp(target, file.sha256)
            return True
        meter.note(f"{target} is damaged or of another revision, and will be fetched again")
        target.unlink()
        return False

    def _check_space(self, wanted: Sequence[HubFile]) -> None:
        """What is still to come must fit."""
        have = sum(file.stat().st_size for file in self.partial.iterdir())
        missing = [file.size or 0 for file in wanted if not (self.folder / file.name).is_file()]
        need, free = max(0, sum(missing) - have), cache.free_bytes(self.folder)
        if free < need:
            room = f"{bytes_text(need)} of disk, {self.folder} has {bytes_text(free)} free"
            raise DownloadError(f"{self.repo} needs {room}: free some, or set ULTRA_CACHE to another folder")
