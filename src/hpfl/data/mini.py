"""`mnist-mini`: 12,000 + 2,000 images of MNIST, as many of each digit, carried in the package."""

from pathlib import Path

from hpfl.data.dataset import Dataset, DatasetSpec, DownloadProgress
from hpfl.data.mnist import NUM_CLASSES, SAMPLE_BITS, SIDE, read_mnist

TRAIN_PER_CLASS = 1_200
TEST_PER_CLASS = 200
FOLDER = Path(__file__).with_name("files") / "mnist-mini"


def load_mini(data_dir: Path | None = None, progress: DownloadProgress | None = None) -> Dataset:
    """The embedded sample; it needs neither a folder nor the network."""
    del data_dir, progress
    return read_mnist(FOLDER, name="mnist-mini", num_train=MNIST_MINI.num_train, num_test=MNIST_MINI.num_test)


MNIST_MINI = DatasetSpec(
    name="mnist-mini",
    num_classes=NUM_CLASSES,
    input_shape=(1, SIDE, SIDE),
    num_train=NUM_CLASSES * TRAIN_PER_CLASS,
    num_test=NUM_CLASSES * TEST_PER_CLASS,
    sample_bits=SAMPLE_BITS,
    load=load_mini,
    about="A sample of MNIST that travels along: 28 x 28 grey digits.",
)
