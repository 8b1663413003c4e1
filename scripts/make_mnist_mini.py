"""Make the embedded sample `mnist-mini` from the publisher's MNIST.

usage: python scripts/make_mnist_mini.py FOLDER     (FOLDER/mnist/*.gz or FOLDER/*.gz)

Of every digit's n images, in the publisher's order, numbers floor(i n / m) for i = 0 .. m - 1 are taken: 1,200 for
training, 200 for testing, evenly spaced because the publisher's test file has the easier writers first. The chosen
images keep their order. No randomness: the same files come out every time.
"""

import gzip
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpfl.data.dataset import Targets
from hpfl.data.mini import FOLDER, TEST_PER_CLASS, TRAIN_PER_CLASS
from hpfl.data.mnist import FILES, NUM_CLASSES, load_mnist


def spaced_rows(targets: Targets, per_class: int) -> NDArray[np.int64]:
    """Rows of `per_class` evenly spaced samples of every class, in rising order."""
    rows = [np.flatnonzero(targets == label) for label in range(NUM_CLASSES)]
    return np.sort(np.concatenate([r[np.arange(per_class) * len(r) // per_class] for r in rows]))


def write_idx(path: Path, values: NDArray[np.uint8]) -> None:
    """One gzipped IDX file of unsigned bytes, the same bytes whenever it is written."""
    header = np.array([0x0800 | values.ndim, *values.shape], dtype=">u4").tobytes()
    path.write_bytes(gzip.compress(header + values.tobytes(), compresslevel=9, mtime=0))


def main(source: Path) -> None:
    """Write the four files of the sample into the package."""
    full = load_mnist(source, None)
    train, test = spaced_rows(full.targets, TRAIN_PER_CLASS), spaced_rows(full.test_targets, TEST_PER_CLASS)
    FOLDER.mkdir(parents=True, exist_ok=True)
    parts = (
        full.inputs[train, 0],
        full.targets[train].astype(np.uint8),
        full.test_inputs[test, 0],
        full.test_targets[test].astype(np.uint8),
    )
    for name, values in zip(FILES, parts, strict=True):
        write_idx(FOLDER / f"{name}.gz", values)
    print(f"{sum(path.stat().st_size for path in FOLDER.iterdir()):,} bytes in {FOLDER.name}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
