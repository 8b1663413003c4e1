"""The folder of the cache with the files of a data set that is published as one archive."""

from collections.abc import Callable
from pathlib import Path

from hpfl.data.archives import in_one_step
from hpfl.data.dataset import DownloadProgress
from hpfl.data.download import DownloadError, RemoteFile, cache_dir, fetch
from hpfl.data.folders import find_complete, what_to_do

Unpack = Callable[[Path, Path], None]
"""Puts the files of an archive into a folder."""


def fetched_folder(
    name: str,
    remote: RemoteFile,
    place: tuple[str, tuple[str, ...]],
    unpack: Unpack,
    data_dir: Path | None,
    progress: DownloadProgress | None,
) -> Path:
    """The subfolder and files of `place`; where they are missing the archive is downloaded, unpacked and removed."""
    subfolder, files = place
    folder = cache_dir() / subfolder

    def whole(there: Path) -> bool:
        return find_complete([there], files) is not None

    if whole(folder):
        return folder
    try:
        archive = fetch(remote, cache_dir(), progress=progress)
    except DownloadError as error:
        looked = f"{name} is not in {data_dir}; " if data_dir else ""
        advice = what_to_do(name, files=files, subfolder=subfolder, source=remote.urls[0])
        raise DownloadError(f"{looked}{error}; {advice}") from error
    in_one_step(folder, lambda fresh: unpack(archive, fresh), whole=whole)
    archive.unlink(missing_ok=True)
    return folder
