"""Files out of a publisher's archive: those that are wanted, no larger than they may be, and nothing else."""

import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from hpfl.data.dataset import DatasetError

_MOST_MEMBERS = 1_000  # no publisher's archive has so many
_BLOCK_BYTES = 1 << 20


def unpack_tar(archive: Path, wanted: Mapping[str, Path], *, file_bytes: Mapping[str, int]) -> None:
    """Members of a tar.gz by their names, each exactly so long; whatever else an archive holds is never written."""
    left = dict(wanted)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for number, member in enumerate(tar):
                if number >= _MOST_MEMBERS or not left:
                    break
                if member.name in left:
                    _copy_member(tar, member, left.pop(member.name), file_bytes[member.name])
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DatasetError(f"{archive} cannot be unpacked: {error}") from error
    if left:
        raise DatasetError(f"{archive} lacks {', '.join(left)}")


def unpack_zip(archive: Path, wanted: Mapping[str, Path], *, most_bytes: int) -> None:
    """Members of a zip by their names, none longer than `most_bytes`, whatever its directory says of them."""
    try:
        with zipfile.ZipFile(archive) as packed:
            there = packed.infolist()[:_MOST_MEMBERS]
            known = {info.filename: info for info in there if not info.is_dir()}
            lacking = [name for name in wanted if name not in known]
            if lacking:
                raise DatasetError(f"{archive} lacks {', '.join(lacking)}")
            for name, target in wanted.items():
                _copy_packed(packed, known[name], target, most_bytes)
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DatasetError(f"{archive} cannot be unpacked: {error}") from error


def in_one_step(folder: Path, fill: Callable[[Path], None], *, whole: Callable[[Path], bool]) -> None:
    """Fill a folder beside `folder` and rename it, so that a half-filled one never carries its name."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        fresh = Path(beside) / folder.name
        fresh.mkdir()
        fill(fresh)
        try:
            fresh.replace(folder)
        except OSError:
            if not whole(folder):  # else another process was quicker
                raise


def _copy_member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, file_bytes: int) -> None:
    source = tar.extractfile(member) if member.isreg() else None
    if source is None:
        raise DatasetError(f"{member.name} in the archive is not a plain file")
    if member.size != file_bytes:
        raise DatasetError(f"{member.name} in the archive has {member.size:,} bytes; wanted {file_bytes:,}")
    with target.open("wb") as out:
        shutil.copyfileobj(source, out)


def _copy_packed(packed: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, most_bytes: int) -> None:
    done = 0
    with packed.open(info) as source, target.open("wb") as out:
        while block := source.read(_BLOCK_BYTES):
            done += len(block)
            if done > most_bytes:
                raise DatasetError(f"{info.filename} in the archive has more than {most_bytes:,} bytes")
            out.write(block)
