"""One HTTP download that survives cut connections and interrupted programs."""

from __future__ import annotations

import errno
import functools
import re
import shutil
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx

from ..errors import DownloadError

TRIES = 4
PAUSE_SECONDS = 0.5
TIMEOUT = httpx.Timeout(30, connect=5)
"""A closed network must fall through to the next source quickly."""

Tick = Callable[[int], None]


class _Again(Exception):
    """Worth another try, from where this one ended."""


def download(url: str, target: Path, what: str, *, headers: Mapping[str, str] = {}, tick: Tick) -> None:
    """Fetch ``url`` into ``target``, continuing what is already there; ``tick`` gets the bytes so far.

    Raises `DownloadError` in words about ``what``; the bytes that came remain in ``target``.
    """
    if urlsplit(url).scheme == "file":
        shutil.copyfile(unquote(urlsplit(url).path), target)
        return tick(target.stat().st_size)
    reason = ""
    with httpx.Client(follow_redirects=True, timeout=TIMEOUT, verify=_certificates()) as client:
        for attempt in range(TRIES):
            time.sleep(PAUSE_SECONDS * attempt)
            before = _size(target)
            try:
                return _attempt(client, url, target, what, headers, tick)
            except httpx.ConnectError as error:
                # Nobody there: another try seldom helps, another source might.
                raise DownloadError(f"{what}: no connection ({_words(error)})") from None
            except (httpx.HTTPError, _Again) as error:
                reason = _words(error)
            except OSError as error:
                raise disk_error(error, target) from error
            if _size(target) == before and attempt >= 1:
                break
    raise DownloadError(f"{what}: the connection broke off ({reason}); start again to resume")


def disk_error(error: OSError, path: Path) -> DownloadError:
    """What to tell about a write that failed."""
    elsewhere = "or set ULTRA_CACHE to another folder"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk is full ({path.parent}): free some space, {elsewhere}")
    if error.errno == errno.EFBIG:
        return DiskFull(f"{path.parent} cannot take a file of this size: raise the limit, {elsewhere}")
    return DownloadError(f"cannot write {path}: {error.strerror or error}")


class DiskFull(DownloadError):
    """No other source can help."""


def _attempt(
    client: httpx.Client, url: str, target: Path, what: str, headers: Mapping[str, str], tick: Tick
) -> None:
    have = _size(target)
    ask = {"Accept-Encoding": "identity", **headers, **({"Range": f"bytes={have}-"} if have else {})}
    with client.stream("GET", url, headers=ask) as answer:
        if answer.status_code == 416 and have:
            if answer.headers.get("Content-Range", "").endswith(f"/{have}"):
                return tick(have)
            target.unlink()
            raise _Again("the file on the server has changed")
        _check_status(answer.status_code, what)
        start = _start(answer, have)
        length = answer.headers.get("Content-Length")
        with target.open("r+b" if start else "wb") as out:
            if start:
                out.seek(start)
                out.truncate()
            done = start
            for chunk in answer.iter_raw():  # no chunk size: a cut would lose what is gathered for it
                out.write(chunk)
                done += len(chunk)
                tick(done)
        if length is not None and done != start + int(length):
            raise _Again(f"{done - start} of {length} bytes came")


def _check_status(status: int, what: str) -> None:
    if status == 404:
        raise DownloadError(f"{what}: not there (404)")
    if status in (401, 403):
        raise DownloadError(f"{what}: access denied ({status}); a gated model needs HF_TOKEN")
    if status in (408, 429) or status >= 500:
        raise _Again(f"the server says {status}")
    if status not in (200, 206):
        raise DownloadError(f"{what}: the server answered {status}")


def _start(answer: httpx.Response, have: int) -> int:
    """Where the body begins: at ``have`` if the server resumes, at 0 if it sends everything."""
    if answer.status_code == 200:
        return 0
    found = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    if found is None or int(found[1]) != have:
        raise _Again("the server resumed at another place")
    return have


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@functools.cache
def _certificates() -> ssl.SSLContext:
    """The usual certificates and the system's, where companies add their own; read once, it takes a while."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context
