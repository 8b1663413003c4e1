"""What a data set is, once read: arrays of inputs and targets, and what a loader promises beforehand."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import IntArray

FloatArray32 = NDArray[np.float32]
Inputs = NDArray[np.uint8] | FloatArray32 | IntArray
Targets = IntArray | FloatArray32

DownloadProgress = Callable[[str, int, int], None]
"""Told what is being fetched, the bytes so far and the bytes expected; called for every block."""


class DatasetError(ValueError):
    """Data that is missing, damaged or not in its publisher's format; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Owners:
    """Whose samples those of a data set are, UE after UE: `sizes` [N] for training, `test_sizes` [N] for testing.

    `test_sizes` is None where nobody has test samples: then `held_out` of each UE's own samples are set aside for
    testing. `edge_of_ue` [N] is the edge each UE sits under; None leaves that to the network's shape.
    """

    sizes: IntArray
    test_sizes: IntArray | None
    edge_of_ue: IntArray | None
    held_out: float = 0.0


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples.

    `inputs` are uint8[M, C, H, W] images, float32 features or int64 tokens, `targets` int64 classes or float32 values;
    `num_classes` is None for regression. `sample_bits` is what one training sample costs to process, in bit
    (the paper's Table 1 counts CPU cycles per bit). `mean` and `std`, one number per channel, standardise images.
    Samples that belong to somebody from the start have `owners`; the others are dealt by a partitioner.
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
    owners: Owners | None = None

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

    @property
    def num_outputs(self) -> int:
        """Outputs a model needs: one per class, or as many as a target has numbers."""
        return self.num_classes or max(prod(self.targets.shape[1:]), 1)

    @cached_property
    def signature(self) -> str:
        """A short name for these very samples and their owners: other samples have another."""
        digest = hashlib.blake2b(digest_size=12)
        owners = self.owners
        whose = (None,) if owners is None else (owners.sizes, owners.test_sizes, owners.edge_of_ue, owners.held_out)
        arrays = (self.inputs, self.targets, self.test_inputs, self.test_targets)
        digest.update(repr((self.num_classes, self.sample_bits, self.mean, self.std)).encode())
        for part in (*arrays, *whose):
            held = np.ascontiguousarray(-1 if part is None else part)
            digest.update(repr((held.dtype.str, held.shape)).encode())
            digest.update(held.data)
        return digest.hexdigest()


@dataclass(frozen=True)
class DatasetSpec:
    """What is known of a data set before it is read, and the function that reads it from a folder or the network."""

    name: str
    num_classes: int | None
    input_shape: tuple[int, ...]
    num_train: int
    num_test: int
    sample_bits: int
    load: Callable[..., Dataset]  # of a folder and a progress, each or None, and its options where it has some
    num_values: int = 1  # numbers in a target, where targets are no classes
    about: str = ""
    owned: bool = False  # whether its samples have owners, so that no partitioner deals them

    @property
    def num_outputs(self) -> int:
        """Outputs a model needs: one per class, or as many as a target has numbers."""
        return self.num_classes or self.num_values

    def with_options(self, options: Any) -> "DatasetSpec":
        """The same data set, read with these options."""
        return replace(self, load=partial(self.load, options=options))


def to_float(dataset: Dataset, inputs: Inputs) -> Inputs:
    """What models see: bytes as float32 in [0, 1], standardised where the data set says so; others as they are."""
    if inputs.dtype != np.uint8:
        return inputs
    scaled = inputs.astype(np.float32) / np.float32(255.0)
    if not dataset.mean:
        return scaled
    channel = (1, -1, *(1,) * (inputs.ndim - 2))
    mean = np.asarray(dataset.mean, dtype=np.float32).reshape(channel)
    return (scaled - mean) / np.asarray(dataset.std, dtype=np.float32).reshape(channel)


def _check_part(where: str, inputs: NDArray[Any], targets: NDArray[Any], num_classes: int | None) -> None:
    if len(inputs) != len(targets):
        raise DatasetError(f"{where}: {len(inputs)} inputs but {len(targets)} targets")
    if inputs.dtype not in (np.uint8, np.float32, np.int64):
        raise DatasetError(f"{where}: inputs are {inputs.dtype}; they must be uint8, float32 or int64 (tokens)")
    if inputs.dtype == np.float32 and not np.isfinite(inputs).all():
        raise DatasetError(f"{where}: some inputs are not finite")
    if num_classes is None:
        if not np.isfinite(targets).all():
            raise DatasetError(f"{where}: some targets are not finite")
    elif targets.dtype != np.int64 or (len(targets) and not 0 <= targets.min() <= targets.max() < num_classes):
        raise DatasetError(f"{where}: targets must be int64 classes from 0 to {num_classes - 1}")
