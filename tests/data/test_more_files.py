"""Fashion-MNIST, EMNIST, CIFAR-100 and UCI HAR in their publishers' formats, made small; and anyone's pooled arrays."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from data_files import idx_bytes

import hpfl
from hpfl.data import cifar100, emnist, uci_har
from hpfl.data.archives import unpack_zip
from hpfl.data.dataset import DatasetError
from hpfl.data.emnist import EmnistSplit, read_emnist
from hpfl.data.fashion_mnist import DEBIAN
from hpfl.data.partition import PARTITIONERS, PartitionSettings, make_shards
from hpfl.data.sources import DATASETS, load_dataset
from hpfl.rng import Streams

SPLIT = EmnistSplit("letters", 6, 4, 26, first=1)
RECORDS = {"train.bin": 6, "test.bin": 4}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPFL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def emnist_files() -> dict[str, bytes]:
    images = np.arange(10 * 784, dtype=np.int64).reshape(10, 28, 28) % 251
    labels = np.arange(10) % 26 + 1
    parts = (images[:6], labels[:6], images[6:], labels[6:])
    return {
        f"{name}.gz": gzip.compress(idx_bytes(part.astype(np.uint8)))
        for name, part in zip(SPLIT.files, parts, strict=True)
    }


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="the package dataset-fashion-mnist is not installed")
def test_fashion_mnist_is_found_where_debian_puts_it(cache: Path) -> None:
    data = load_dataset("fashion-mnist")
    assert data.inputs.shape == (60_000, 1, 28, 28)
    assert np.bincount(data.targets).tolist() == [6_000] * 10
    assert np.bincount(data.test_targets).tolist() == [1_000] * 10
    assert data.inputs[0, 0].sum() == 76_247  # an ankle boot
    assert not cache.exists()


def test_a_folder_of_mnist_is_not_taken_for_fashion_mnist(
    tmp_path: Path, tiny_mnist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr("hpfl.data.fashion_mnist.DEBIAN", tmp_path / "nowhere")
    monkeypatch.setattr("hpfl.data.fashion_mnist.fetched_idx", lambda name, *_: found.append(name) or tiny_mnist)
    with pytest.raises(DatasetError, match="header"):  # it asks for a download rather than read MNIST
        load_dataset("fashion-mnist", tiny_mnist)
    assert found == ["fashion-mnist"]


def test_emnist_is_unpacked_from_its_zip_and_set_upright(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emnist, "SPLITS", (SPLIT,))
    members = {f"gzip/{name}": content for name, content in emnist_files().items()} | {"gzip/../evil": b"x"}
    (tmp_path / "gzip.zip").write_bytes(zipped(members))
    data = read_emnist(emnist._from_archive(tmp_path / "gzip.zip", (SPLIT,)), SPLIT)
    assert data.inputs.shape == (6, 1, 28, 28)
    assert data.inputs[0, 0, :3, 0].tolist() == [0, 1, 2]  # the publisher's rows are columns
    assert data.targets.tolist() == [*range(6)]
    assert sorted(path.name for path in (cache / "emnist").iterdir()) == sorted(emnist_files())


def test_what_a_zip_unpacks_to_is_bounded_and_what_it_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "some.zip"
    path.write_bytes(zipped({"a": bytes(10_000)}))
    with pytest.raises(DatasetError, match="a in the archive has more than 9,999 bytes"):
        unpack_zip(path, {"a": tmp_path / "a"}, most_bytes=9_999)
    with pytest.raises(DatasetError, match=r"some\.zip lacks b"):
        unpack_zip(path, {"b": tmp_path / "b"}, most_bytes=10)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DatasetError, match="cannot be unpacked"):
        unpack_zip(path, {"a": tmp_path / "a"}, most_bytes=10)


def test_cifar100_has_two_labels_and_the_fine_one_counts(tmp_path: Path) -> None:
    rows = np.arange(10 * 3074, dtype=np.int64).reshape(10, 3074) % 251
    rows[:, 0], rows[:, 1] = 7, 90 + np.arange(10)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, part in (("train.bin", rows[:6]), ("test.bin", rows[6:])):
            info = tarfile.TarInfo(f"cifar-100-binary/{name}")
            info.size = part.size
            tar.addfile(info, io.BytesIO(part.astype(np.uint8).tobytes()))
    (tmp_path / "archive.tar.gz").write_bytes(buffer.getvalue())
    cifar100.unpack(tmp_path / "archive.tar.gz", tmp_path, RECORDS)
    data = cifar100.read_cifar100(tmp_path, RECORDS)
    assert data.targets.tolist() == [90, 91, 92, 93, 94, 95]
    assert data.inputs[0, 0, 0, :2].tolist() == [2, 3]
    (tmp_path / "train.bin").write_bytes(np.full(6 * 3074, 100, np.uint8).tobytes())
    with pytest.raises(DatasetError, match="label 100 found; labels run from 0 to 99"):
        cifar100.read_cifar100(tmp_path, RECORDS)


def har_files(people: np.ndarray) -> dict[str, bytes]:
    draws, files = np.random.default_rng(1), {}
    for part, rows in (("train", people[:8]), ("test", people[8:])):
        figures = draws.uniform(-1, 1, size=(len(rows), 561))
        lines = [" " + "  ".join(f"{value: .7e}" for value in row) for row in figures]
        files[f"UCI HAR Dataset/{part}/X_{part}.txt"] = "\n".join(lines).encode()
        files[f"UCI HAR Dataset/{part}/y_{part}.txt"] = "\n".join(str(1 + k % 6) for k in range(len(rows))).encode()
        files[f"UCI HAR Dataset/{part}/subject_{part}.txt"] = "\n".join(map(str, rows)).encode()
    return files


def test_uci_har_is_partitioned_by_person_or_pooled(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uci_har, "NUM_WINDOWS", {"train": 8, "test": 4})
    people = np.array([1, 1, 1, 3, 3, 3, 3, 3, 2, 2, 4, 4])
    (tmp_path / "UCI HAR Dataset.zip").write_bytes(zipped(har_files(people)))
    data = load_dataset("uci-har", tmp_path)
    assert data.owners is not None
    assert data.owners.sizes.tolist() == [3, 2, 5, 2]
    assert data.targets[:3].tolist() == [0, 1, 2]
    pooled = load_dataset("uci-har-pooled", tmp_path)
    assert pooled.owners is None
    assert pooled.inputs.shape == (8, 561)
    place = cache / "UCI HAR Dataset" / "train" / "y_train.txt"
    place.write_text(place.read_text().replace("2", "7", 1))
    with pytest.raises(DatasetError, match=r"y_train.txt line 2 is 7; wanted a number from 1 to 6"):
        load_dataset("uci-har", tmp_path)


def test_where_uci_har_can_be_had_is_said(cache: Path) -> None:
    with pytest.raises(DatasetError, match=r"get UCI HAR Dataset\.zip from https"):
        load_dataset("uci-har")


def pooled_folder(folder: Path, **changes: np.ndarray) -> Path:
    draws = np.random.default_rng(0)
    arrays = {
        "inputs": draws.normal(size=(60, 3)),
        "targets": np.arange(60) % 4,
        "test_inputs": draws.normal(size=(20, 3)),
        "test_targets": np.arange(20) % 4,
    }
    folder.mkdir(exist_ok=True)
    for name, array in (arrays | changes).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=array.dtype == object)
    return folder


@pytest.mark.parametrize("partitioner", PARTITIONERS.names())
def test_a_folder_of_pooled_arrays_is_dealt_by_any_partitioner(tmp_path: Path, partitioner: str) -> None:
    data = load_dataset(f"folder:{pooled_folder(tmp_path)}")
    assert data.owners is None
    assert data.num_classes == 4
    settings = PartitionSettings(labels_per_ue=2, concentration=0.5)
    sizes = np.array([5, 9, 12])
    shards = make_shards(partitioner, data.targets, num_classes=4, sizes=sizes, settings=settings, streams=Streams(0))
    assert sorted(shards.sizes.tolist()) == sizes.tolist()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": np.arange(59) % 4}, "60 inputs but 59 targets"),
        ({"targets": np.arange(60) - 1}, "targets must be int64 classes from 0"),
        ({"inputs": np.full((60, 3), np.nan)}, "some inputs are not finite"),
        ({"test_inputs": np.zeros((20, 2))}, "wanted them alike"),
        ({"inputs": np.array([{}] * 60, dtype=object)}, "holds no data .*allow_pickle"),
    ],
)
def test_pooled_arrays_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, changes: dict[str, np.ndarray], words: str
) -> None:
    with pytest.raises(DatasetError, match=words):
        load_dataset(f"folder:{pooled_folder(tmp_path, **changes)}")


def test_pooled_arrays_need_test_samples(tmp_path: Path) -> None:
    (pooled_folder(tmp_path) / "test_inputs.npy").unlink()
    with pytest.raises(DatasetError, match="test_inputs"):
        load_dataset(f"folder:{tmp_path}")


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpfl.data.own_files._MOST_BYTES", 1_000)
    np.savez_compressed(tmp_path / "ue-0.npz", inputs=np.zeros((100, 3)), targets=np.zeros(100, np.int64))
    with pytest.raises(DatasetError, match=r"it unpacks to .* more than"):
        load_dataset(f"folder:{tmp_path}")


def test_pooled_samples_train(tmp_path: Path) -> None:
    config = hpfl.preset("quickstart-paper")
    config.data.dataset = f"folder:{pooled_folder(tmp_path)}"
    config.network.edges, config.network.ues_per_edge, config.planning.max_edges = 2, 2, 2
    config.data.samples_per_ue, config.training.rounds, config.evaluation.test_samples = [4.0, 9.0], 1, 5
    assert hpfl.run(config, progress=False).summary["completed"]


def test_all_data_sets_say_what_they_are() -> None:
    assert all(DATASETS.part(name).made.about for name in DATASETS.names())
