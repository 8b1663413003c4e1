"""Fashion-MNIST in MNIST's own format: 60,000 + 10,000 grey pictures of ten kinds of clothes."""

from pathlib import Path

from hpfl.data.dataset import Dataset, DatasetSpec, DownloadProgress
from hpfl.data.download import RemoteFile
from hpfl.data.folders import find_complete
from hpfl.data.mnist import FILES, NUM_CLASSES, SAMPLE_BITS, SIDE, SUFFIXES, fetched_idx, read_mnist

NAME = "fashion-mnist"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist puts the files
_SITE = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


def _remote(number: int, size_bytes: int, md5: str) -> RemoteFile:
    name = FILES[number] + ".gz"
    return RemoteFile(name, (_SITE + name,), size_bytes, md5=md5)


REMOTE = (  # checksums from the publisher, not verified here
    _remote(0, 26_421_880, "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    _remote(1, 29_515, "25c81989df183df01b3e8a0aad5dffbe"),
    _remote(2, 4_422_102, "bef4ecab320f06d8554ea6380940ec79"),
    _remote(3, 5_148, "bb300cfdad3c16e7a12a480ee83cd310"),
)


def load_fashion_mnist(data_dir: Path | None, progress: DownloadProgress | None) -> Dataset:
    """From `data_dir/fashion-mnist` or torchvision's `FashionMNIST/raw`, else Debian's package, the cache, a download.

    Its files are called as MNIST's are, so that a folder must say in its name that it holds these.
    """
    places = [DEBIAN]
    if data_dir is not None:
        own = [data_dir / NAME, data_dir / "FashionMNIST" / "raw"]
        places = [*own, *([data_dir] if "fashion" in data_dir.name.lower() else []), DEBIAN]
    folder = find_complete(places, FILES, suffixes=SUFFIXES) or fetched_idx(NAME, REMOTE, data_dir, progress)
    return read_mnist(folder, name=NAME, num_train=60_000, num_test=10_000)


FASHION_MNIST = DatasetSpec(
    name=NAME,
    num_classes=NUM_CLASSES,
    input_shape=(1, SIDE, SIDE),
    num_train=60_000,
    num_test=10_000,
    sample_bits=SAMPLE_BITS,
    load=load_fashion_mnist,
    about="Fashion-MNIST: 28 x 28 grey pictures of ten kinds of clothes, 60,000 to train on.",
)
