import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from data_files import Site, status, whole

from hpfl.data import cifar10, download
from hpfl.data.cifar10 import FILES, SUBFOLDER, read_cifar10, unpack
from hpfl.data.dataset import DatasetError
from hpfl.data.download import DownloadError, RemoteFile
from hpfl.data.sources import load_dataset

FILE_BYTES = 4 * 3073


def pack(members: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if not isinstance(content, tarfile.TarInfo):
                info.size = len(content)
            tar.addfile(info, None if isinstance(content, tarfile.TarInfo) else io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def members(tiny_cifar10: Path) -> dict[str, bytes | tarfile.TarInfo]:
    """What the publisher's archive holds, with four images a file."""
    contents: dict[str, bytes | tarfile.TarInfo] = {f"{SUBFOLDER}/readme.html": b"<html>"}
    contents |= {f"{SUBFOLDER}/{path.name}": path.read_bytes() for path in sorted(tiny_cifar10.iterdir())}
    return contents


def unpack_bytes(archive: bytes, tmp_path: Path) -> Path:
    (tmp_path / "archive.tar.gz").write_bytes(archive)
    target = tmp_path / "inside" / "target"
    target.mkdir(parents=True)
    unpack(tmp_path / "archive.tar.gz", target, file_bytes=FILE_BYTES)
    return target


def test_records_are_read_as_label_then_red_green_and_blue(tiny_cifar10: Path) -> None:
    data = read_cifar10(tiny_cifar10, records_per_file=4)
    assert data.inputs.shape == (20, 3, 32, 32)
    assert data.inputs[:, 0, 0, 0].tolist() == list(range(20))
    assert (data.inputs[:, 2, 0, 0] == 200).all()
    assert data.targets[:8].tolist() == [0, 1, 2, 3, 1, 2, 3, 4]
    assert data.test_targets.tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("subfolder", [True, False])
def test_both_folder_layouts_are_accepted(tiny_cifar10: Path, monkeypatch: pytest.MonkeyPatch, subfolder: bool) -> None:
    monkeypatch.setattr(cifar10, "RECORDS_PER_FILE", 4)
    assert load_dataset("cifar10", tiny_cifar10.parent if subfolder else tiny_cifar10).num_train == 20


def test_a_file_of_another_size_is_refused_with_both_sizes(tiny_cifar10: Path) -> None:
    (tiny_cifar10 / "data_batch_3.bin").write_bytes(bytes(3073))
    with pytest.raises(DatasetError, match=r"data_batch_3\.bin has 3,073 bytes; 4 images take 12,292"):
        read_cifar10(tiny_cifar10, records_per_file=4)


def test_a_label_that_no_class_has_is_refused(tiny_cifar10: Path) -> None:
    np.full((4, 3073), 10, np.uint8).tofile(tiny_cifar10 / "test_batch.bin")
    with pytest.raises(DatasetError, match=r"test_batch\.bin: label 10 found"):
        read_cifar10(tiny_cifar10, records_per_file=4)


def test_a_missing_file_is_named(tiny_cifar10: Path) -> None:
    (tiny_cifar10 / "data_batch_2.bin").unlink()
    with pytest.raises(DatasetError, match=r"only part of the data: data_batch_2\.bin missing"):
        load_dataset("cifar10", tiny_cifar10.parent)


def test_only_the_six_expected_files_are_ever_unpacked(
    members: dict[str, bytes | tarfile.TarInfo], tmp_path: Path
) -> None:
    hostile = {"../../evil": b"x", f"{SUBFOLDER}/../../evil": b"x", "/evil": b"x", f"{SUBFOLDER}/extra.bin": b"x"}
    target = unpack_bytes(pack(hostile | members), tmp_path)
    assert sorted(path.name for path in target.iterdir()) == sorted(FILES)
    assert not list(tmp_path.rglob("*evil*"))


def test_a_link_in_place_of_a_file_is_refused(members: dict[str, bytes | tarfile.TarInfo], tmp_path: Path) -> None:
    link = tarfile.TarInfo(f"{SUBFOLDER}/data_batch_1.bin")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    with pytest.raises(DatasetError, match=r"data_batch_1\.bin in the archive is not a plain file"):
        unpack_bytes(pack(members | {link.name: link}), tmp_path)


def test_a_member_of_another_size_is_refused(members: dict[str, bytes | tarfile.TarInfo], tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"test_batch\.bin in the archive has 5 bytes; wanted 12,292"):
        unpack_bytes(pack(members | {f"{SUBFOLDER}/test_batch.bin": b"short"}), tmp_path)


def test_an_archive_without_a_file_is_refused_naming_it(
    members: dict[str, bytes | tarfile.TarInfo], tmp_path: Path
) -> None:
    del members[f"{SUBFOLDER}/data_batch_5.bin"]
    with pytest.raises(DatasetError, match=r"lacks cifar-10-batches-bin/data_batch_5\.bin"):
        unpack_bytes(pack(members), tmp_path)


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_an_archive_cut_short_is_refused(members: dict[str, bytes | tarfile.TarInfo], tmp_path: Path, cut: int) -> None:
    with pytest.raises(DatasetError, match=r"archive\.tar\.gz cannot be unpacked"):
        unpack_bytes(pack(members)[:cut], tmp_path)


@pytest.fixture
def published(site: Site, members: dict[str, bytes | tarfile.TarInfo], monkeypatch: pytest.MonkeyPatch) -> None:
    """The small archive, offered by a server of this machine instead of the publisher's."""
    archive = pack(members)
    url = site.offer("/archive", whole(archive))
    digest = hashlib.sha256(archive).hexdigest()
    monkeypatch.setattr(cifar10, "REMOTE", RemoteFile("cifar-10-binary.tar.gz", (url,), len(archive), digest))
    monkeypatch.setattr(cifar10, "RECORDS_PER_FILE", 4)


@pytest.mark.usefixtures("published")
def test_cifar10_is_downloaded_and_unpacked_once(site: Site) -> None:
    assert load_dataset("cifar10").num_train == 20
    assert [path.name for path in download.cache_dir().iterdir()] == [SUBFOLDER]
    load_dataset("cifar10")
    assert site.asked == ["/archive"]


@pytest.mark.usefixtures("published")
def test_a_failed_download_says_exactly_what_to_do(site: Site, tmp_path: Path) -> None:
    site.offer("/archive", status(404))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DownloadError) as refusal:
        load_dataset("cifar10", empty)
    for part in (f"cifar10 is not in {empty}", "404", f"FOLDER/{SUBFOLDER}", "--data-dir FOLDER", *FILES):
        assert part in str(refusal.value)
