import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from data_files import Site, idx_bytes, status, whole

from hpfl.data import download, mnist
from hpfl.data.dataset import DatasetError
from hpfl.data.download import DownloadError, RemoteFile
from hpfl.data.mini import FOLDER
from hpfl.data.mnist import FILES, read_idx, read_mnist
from hpfl.data.sources import DATASETS, Dataset, load_dataset

IMAGES = "train-images-idx3-ubyte.gz"
PUBLISHED_MD5 = {  # of the unpacked files
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def read_tiny(folder: Path) -> Dataset:
    return read_mnist(folder, name="tiny", num_train=30, num_test=10)


def test_packed_files_are_read_as_their_format_says(tiny_mnist: Path) -> None:
    data = read_tiny(tiny_mnist)
    assert data.inputs.shape == (30, 1, 28, 28)
    assert data.inputs[1, 0, 0, :3].tolist() == [784 % 251, 785 % 251, 786 % 251]
    assert data.targets.tolist() == [*range(10)] * 3
    assert data.test_inputs.shape == (10, 1, 28, 28)
    assert data.sample_bits == 784 * 8
    assert data.inputs.flags.writeable


def test_unpacked_files_are_read_alike(tiny_mnist: Path) -> None:
    packed = read_tiny(tiny_mnist)
    for path in list(tiny_mnist.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    np.testing.assert_array_equal(read_tiny(tiny_mnist).inputs, packed.inputs)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", r"header .* is \(\)"),
        (b"\x00\x00\x08\x03\x00\x00", r"header .* is \(2051,\)"),
        (idx_bytes(np.zeros((30, 28, 28), np.uint8))[:-1], r"23,536 bytes wanted .* 23,535 found"),
        (idx_bytes(np.zeros((30, 28, 28), np.uint8)) + b"x", r"23,536 bytes wanted .* more found"),
        (idx_bytes(np.zeros((29, 28, 28), np.uint8)), r"is \(2051, 29, 28, 28\); wanted \(2051, 30, 28, 28\)"),
        (idx_bytes(np.zeros((30, 28), np.uint8)), r"header .* is \(2050, "),
        (b"\x00\x00\x0d" + idx_bytes(np.zeros((30, 28, 28), np.uint8))[3:], r"header .* is \(3331, "),
    ],
)
def test_a_file_of_another_format_or_length_is_refused_by_name(tiny_mnist: Path, content: bytes, fault: str) -> None:
    (tiny_mnist / IMAGES).write_bytes(gzip.compress(content))
    with pytest.raises(DatasetError, match=rf"{IMAGES}: .*{fault}"):
        read_tiny(tiny_mnist)


@pytest.mark.parametrize("damage", ["not gzip", "cut", "flipped"])
def test_a_damaged_packed_file_is_refused_by_name(tiny_mnist: Path, damage: str) -> None:
    path = tiny_mnist / IMAGES
    packed = bytearray(path.read_bytes())
    packed[-6] ^= 0xFF  # in the checksum gzip ends with
    path.write_bytes({"not gzip": b"<html>", "cut": bytes(packed[:-20]), "flipped": bytes(packed)}[damage])
    with pytest.raises(DatasetError, match=rf"{IMAGES} cannot be read"):
        read_tiny(tiny_mnist)


def test_no_more_is_unpacked_than_the_format_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(idx_bytes(np.zeros((2, 28, 28), np.uint8)) + bytes(50_000_000)))
    asked: list[int] = []
    read = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, size=-1: asked.append(size) or read(self, size))
    with pytest.raises(DatasetError, match="more found"):
        read_idx(bomb, (2, 28, 28))
    assert asked == [16 + 2 * 784 + 1]


def test_a_label_that_no_digit_has_is_refused(tiny_mnist: Path) -> None:
    labels = np.full(30, 10, np.uint8)
    (tiny_mnist / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    with pytest.raises(DatasetError, match="training part: targets must be int64 classes from 0 to 9"):
        read_tiny(tiny_mnist)


def test_a_folder_with_some_of_the_files_is_refused_naming_the_missing_ones(tiny_mnist: Path) -> None:
    (tiny_mnist / IMAGES).unlink()
    with pytest.raises(DatasetError, match="only part of the data: train-images-idx3-ubyte missing"):
        load_dataset("mnist", tiny_mnist.parent)


@pytest.mark.parametrize("layout", ["MNIST/raw", "raw", "."])
def test_torchvisions_layout_is_found(tiny_mnist: Path, tmp_path: Path, layout: str, monkeypatch) -> None:
    place = tmp_path / "torchvision" / layout
    place.parent.mkdir(parents=True, exist_ok=True)
    tiny_mnist.rename(place)
    monkeypatch.setattr(mnist, "read_mnist", lambda folder, **_: folder)
    assert load_dataset("mnist", tmp_path / "torchvision").samefile(place)


@pytest.mark.parametrize("by_environment", [True, False])
def test_a_folder_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    nowhere = tmp_path / "nowhere"
    if by_environment:
        monkeypatch.setenv("HPFL_DATA_DIR", str(nowhere))
    origin = "HPFL_DATA_DIR" if by_environment else "--data-dir"
    with pytest.raises(DatasetError, match=rf"{origin} names .*nowhere, which is not a folder"):
        load_dataset("mnist", None if by_environment else nowhere)


@pytest.fixture
def published(site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Blank images in the full numbers, offered by a server of this machine instead of the publisher's mirrors."""
    shapes = [(60_000, 28, 28), (60_000,), (10_000, 28, 28), (10_000,)]
    files = {
        f"{name}.gz": gzip.compress(idx_bytes(np.zeros(shape, np.uint8)), 1)
        for name, shape in zip(FILES, shapes, strict=True)
    }
    remotes = [
        RemoteFile(name, (site.offer(f"/{name}", whole(content)),), len(content), hashlib.sha256(content).hexdigest())
        for name, content in files.items()
    ]
    monkeypatch.setattr(mnist, "REMOTE", tuple(remotes))
    return files


def test_mnist_is_downloaded_once_into_the_cache(site: Site, published: dict[str, bytes]) -> None:
    assert load_dataset("mnist").inputs.shape == (60_000, 1, 28, 28)
    assert sorted(path.name for path in (download.cache_dir() / "mnist").iterdir()) == sorted(published)
    load_dataset("mnist")
    assert len(site.asked) == 4


def test_a_failed_download_says_exactly_what_to_do(site: Site, published: dict[str, bytes], tmp_path: Path) -> None:
    site.offer(f"/{IMAGES}", status(404))
    with pytest.raises(DownloadError) as refusal:
        load_dataset("mnist", tmp_path)
    message = str(refusal.value)
    for part in (
        f"mnist is not in {tmp_path}",
        "404",
        "FOLDER/mnist",
        "--data-dir FOLDER",
        "HPFL_DATA_DIR=FOLDER",
        "mini",
    ):
        assert part in message
    assert all(name in message for name in published)


def test_the_publishers_files_are_read_from_the_folder_in_the_environment(
    real_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, md5 in PUBLISHED_MD5.items():
        with gzip.open(real_data_dir / "mnist" / f"{name}.gz") as file:
            assert hashlib.file_digest(file, "md5").hexdigest() == md5
    monkeypatch.setenv("HPFL_DATA_DIR", str(real_data_dir))
    data = load_dataset("mnist")
    assert np.bincount(data.targets).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert data.targets[:5].tolist() == [5, 0, 4, 1, 9]
    assert len(data.test_targets) == 10_000


def test_the_embedded_sample_is_what_its_rule_takes_from_the_publishers_files(real_data_dir: Path) -> None:
    full, mini = load_dataset("mnist", real_data_dir), load_dataset("mnist-mini")
    for label in range(10):
        rows = np.flatnonzero(full.targets == label)
        taken = rows[np.arange(1200) * len(rows) // 1200]
        np.testing.assert_array_equal(mini.inputs[mini.targets == label], full.inputs[taken])
        rows = np.flatnonzero(full.test_targets == label)
        taken = rows[np.arange(200) * len(rows) // 200]
        np.testing.assert_array_equal(mini.test_inputs[mini.test_targets == label], full.test_inputs[taken])


def test_the_embedded_sample_is_balanced_and_takes_at_most_two_and_a_half_megabytes() -> None:
    mini = load_dataset("mnist-mini")
    assert np.bincount(mini.targets).tolist() == [1200] * 10
    assert np.bincount(mini.test_targets).tolist() == [200] * 10
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 2_500_000


def test_a_specification_says_what_the_data_set_turns_out_to_be() -> None:
    spec, mini = DATASETS.get("mnist-mini"), load_dataset("mnist-mini")
    assert (spec.num_train, spec.num_test) == (mini.num_train, len(mini.test_targets))
    assert (spec.num_classes, spec.input_shape, spec.sample_bits) == (10, mini.input_shape, mini.sample_bits)


def test_the_data_sets_are_known_by_name() -> None:
    assert {"mnist-mini", "mnist", "cifar10"} <= set(DATASETS.names())
    assert [DATASETS.get(name).sample_bits for name in ("mnist", "cifar10")] == [784 * 8, 3072 * 8]
    with pytest.raises(ValueError, match=r"no data set is called 'imagenet'; there are mnist-mini, mnist, .*cifar10"):
        load_dataset("imagenet")
