"""Fetching a published file once into a cache: checked by size and digest, retried, put in place in one step."""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from hpfl.data.dataset import DatasetError, DownloadProgress

ATTEMPTS = 3
TIMEOUT_S = 20.0
_BLOCK_BYTES = 1 << 17
_TITLES = {"sha256": "SHA-256", "md5": "MD5"}
_WORTH_RETRYING = (408, 425, 429)  # of the 4xx answers; the others will be the same next time


class DownloadError(DatasetError):
    """A file that no mirror delivered whole."""


@dataclass(frozen=True)
class RemoteFile:
    """A published file: its name, where it can be had, its size in bytes and its SHA-256, or the MD5 of its publisher.

    An MD5 tells a file that came damaged, not one that somebody has made to look like it.
    """

    name: str
    urls: tuple[str, ...]
    size_bytes: int
    sha256: str = ""
    md5: str = ""

    @property
    def checksum(self) -> tuple[str, str]:
        """Which digest, and what it should be."""
        return ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)


def cache_dir() -> Path:
    """Where downloads are kept: `HPFL_CACHE_DIR`, else `hpfl` in `XDG_CACHE_HOME` or ~/.cache."""
    own = os.environ.get("HPFL_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "hpfl"


def fetch(
    remote: RemoteFile,
    folder: Path,
    *,
    progress: DownloadProgress | None = None,
    pause_s: float = 1.0,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """The file in `folder`, downloaded unless it is there whole; mirrors in turn, with a pause that doubles."""
    target = folder / remote.name
    if target.is_file() and _is_whole(target, remote):
        return target
    _make_folder(folder)
    urls, failures = list(remote.urls), []
    for attempt in range(ATTEMPTS):
        if attempt and urls:
            sleep(pause_s * 2 ** (attempt - 1))
        for url in tuple(urls):
            try:
                return _fetch_from(url, remote, target=target, progress=progress)
            except (OSError, HTTPException, DownloadError) as error:
                failures.append(f"{url}: {error}")
                if isinstance(error, HTTPError) and 400 <= error.code < 500 and error.code not in _WORTH_RETRYING:
                    urls.remove(url)
    raise DownloadError(f"{remote.name} could not be downloaded: " + "; ".join(dict.fromkeys(failures)))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DownloadError(
            f"cannot make the cache folder {folder} ({error}); name another in HPFL_CACHE_DIR"
        ) from error


def _fetch_from(url: str, remote: RemoteFile, *, target: Path, progress: DownloadProgress | None) -> Path:
    """One try at one mirror; nothing appears under the target's name unless it is whole."""
    handle, part = tempfile.mkstemp(prefix=f"{remote.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            _copy_checked(url, remote, out=out, progress=progress)
            out.flush()
            os.fsync(out.fileno())
        return Path(part).replace(target)
    finally:
        Path(part).unlink(missing_ok=True)


def _copy_checked(url: str, remote: RemoteFile, *, out: BinaryIO, progress: DownloadProgress | None) -> None:
    (kind, wanted), done = remote.checksum, 0
    digest = hashlib.new(kind, usedforsecurity=False)
    with urlopen(Request(url, headers={"User-Agent": "hpfl"}), timeout=TIMEOUT_S) as response:
        while block := response.read(_BLOCK_BYTES):
            done += len(block)
            if done > remote.size_bytes:
                raise DownloadError(f"more than the expected {remote.size_bytes:,} bytes came")
            digest.update(block)
            out.write(block)
            if progress is not None:
                progress(remote.name, done, remote.size_bytes)
    if done < remote.size_bytes:
        raise DownloadError(f"truncated: {done:,} of {remote.size_bytes:,} bytes came")
    if digest.hexdigest() != wanted:
        raise DownloadError(f"corrupted: {_TITLES[kind]} is {digest.hexdigest()}, wanted {wanted}")


def _is_whole(path: Path, remote: RemoteFile) -> bool:
    kind, wanted = remote.checksum
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest() == wanted
