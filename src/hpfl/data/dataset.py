"""What a data set is, once read: arrays of inputs and targets, and what a loader promises beforehand."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray32 = NDArray[np.float32]
Inputs = NDArray[np.uint8] | FloatArray32
Targets = NDArray[np.int64] | FloatArray32

Progress = Callable[[str, int, int], None]
"""Told what is being fetched, the bytes so far and the bytes expected; called for every block."""


class DatasetError(ValueError):
    """Data that is missing, damaged or not in its publisher's format; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples.

    `inputs` are uint8[M, C, H, W] images or float32 features, `targets` int64 classes or float32 values;
    `num_classes` is None for regression. `sample_bits` is what one training sample costs to process, in bit
    (the paper's Table 1 counts CPU cycles per bit). `mean` and `std`, one number per channel, standardise images.
    """

    name: str
    inputs: Inputs
    targets: Targets
    num_classes: int | None
    test_inputs: Inputs
    test_targets: Targets
    sample_bits: int
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for part, inputs, targets in (
            ("training", self.inputs, self.targets),
            ("test", self.test_inputs, self.test_targets),
        ):
            _check_part(f"{self.name}, {part} part", inputs, targets, self.num_classes)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.inputs.shape[1:])

    @property
    def num_train(self) -> int:
        """M, the number of training samples."""
        return len(self.targets)


@dataclass(frozen=True)
class DatasetSpec:
    """What is known of a data set before it is read, and the function that reads it from a folder or the network."""

    name: str
    num_classes: int | None
    input_shape: tuple[int, ...]
    num_train: int
    num_test: int
    sample_bits: int
    load: Callable[[Path | None, Progress | None], Dataset]


def to_float(dataset: Dataset, inputs: Inputs) -> FloatArray32:
    """What models see: bytes as float32 in [0, 1], standardised where the data set says so; features as they are."""
    if inputs.dtype != np.uint8:
        return inputs.astype(np.float32, copy=False)
    scaled = inputs.astype(np.float32) / np.float32(255.0)
    if not dataset.mean:
        return scaled
    channel = (1, -1, *(1,) * (inputs.ndim - 2))
    mean = np.asarray(dataset.mean, dtype=np.float32).reshape(channel)
    return (scaled - mean) / np.asarray(dataset.std, dtype=np.float32).reshape(channel)


def _check_part(where: str, inputs: NDArray[Any], targets: NDArray[Any], num_classes: int | None) -> None:
    if len(inputs) != len(targets):
        raise DatasetError(f"{where}: {len(inputs)} inputs but {len(targets)} targets")
    if inputs.dtype not in (np.uint8, np.float32):
        raise DatasetError(f"{where}: inputs are {inputs.dtype}; they must be uint8 or float32")
    if inputs.dtype == np.float32 and not np.isfinite(inputs).all():
        raise DatasetError(f"{where}: some inputs are not finite")
    if num_classes is None:
        if not np.isfinite(targets).all():
            raise DatasetError(f"{where}: some targets are not finite")
    elif targets.dtype != np.int64 or (len(targets) and not 0 <= targets.min() <= targets.max() < num_classes):
        raise DatasetError(f"{where}: targets must be int64 classes from 0 to {num_classes - 1}")
