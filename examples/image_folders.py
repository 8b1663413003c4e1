"""Pictures in folders, a folder per class as torchvision's ImageFolder has them, as samples of HPFL.

    python examples/image_folders.py PATH      # trains a small network on PATH/USER/CLASS/*.png

Two layouts. Classes are numbered in the order of their names, as ImageFolder does, and alike for all users:

    PATH/USER/CLASS/any-name.png                             everybody's own pictures       -> per_user(PATH)
    PATH/train/CLASS/any-name.png, PATH/test/CLASS/...       one heap, dealt to UEs         -> one_heap(PATH)

At the command line: IMAGES=PATH PYTHONPATH=examples hpfl run mine.toml --set data.dataset=image_folders:per_user
"""

import os
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import hpfl
from hpfl.data import Dataset

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".webp"}
SIDE = 28  # pixels; all pictures are made that size


def listed(folder: Path, classes: list[str]) -> list[tuple[Path, int]]:
    """Pictures of a folder of classes with the number of their class: `ImageFolder(folder).samples`."""
    return [
        (path, number)
        for number, name in enumerate(classes)
        for path in sorted((folder / name).glob("*"))
        if path.suffix.lower() in ENDINGS
    ]


def read(samples: list[tuple[Path, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Pictures as bytes [n, 3, SIDE, SIDE], which models see in [0, 1], and their classes [n]."""
    pictures = [np.asarray(Image.open(path).convert("RGB").resize((SIDE, SIDE))) for path, _ in samples]
    stacked = np.stack(pictures).transpose(0, 3, 1, 2) if pictures else np.zeros((0, 3, SIDE, SIDE), np.uint8)
    return np.ascontiguousarray(stacked), np.array([number for _, number in samples], dtype=np.int64)


def folders(path: Path) -> list[Path]:
    """The folders within a folder, by name."""
    return sorted(entry for entry in path.iterdir() if entry.is_dir())


def per_user(root: str | Path = "") -> hpfl.FederatedData:
    """PATH/USER/CLASS/*.png: everybody's own, a fifth of each user's pictures held out for testing."""
    users = folders(Path(root or os.environ["IMAGES"]))
    classes = sorted({entry.name for user in users for entry in folders(user)})
    return hpfl.FederatedData(
        train=[read(listed(user, classes)) for user in users], num_classes=len(classes), name="pictures of users"
    )


def one_heap(root: str | Path = "") -> Dataset:
    """PATH/train/CLASS/*.png and PATH/test/CLASS/*.png: one heap, which `data.partitioner` deals to UEs."""
    path = Path(root or os.environ["IMAGES"])
    classes = [entry.name for entry in folders(path / "train")]
    (inputs, targets), (test_inputs, test_targets) = (read(listed(path / part, classes)) for part in ("train", "test"))
    bits = 8 * inputs[0].size
    return Dataset("pictures", inputs, targets, len(classes), test_inputs, test_targets, sample_bits=bits)


def main(root: str) -> hpfl.RunResult:
    """Ten rounds on everybody's own pictures, two edges."""
    data = per_user(root)
    config = hpfl.preset("quickstart")
    config.network.edges = 2
    config.network.ues_per_edge = [data.num_ues - data.num_ues // 2, data.num_ues // 2]
    config.planning.max_edges = 2
    config.training.rounds = 10
    return hpfl.run(config, data=data)


if __name__ == "__main__":
    print(main(sys.argv[1]).summary["final_personalised_accuracy"])
