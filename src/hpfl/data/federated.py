"""Users' own samples: user `i` is UE `i`, trains on its own training samples and is tested on its own test samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import IntArray
from hpfl.data.dataset import Dataset, DatasetError, Owners
from hpfl.units import BITS_PER_BYTE

SamplesOfUe = tuple[Any, Any]
"""Inputs [n, ...] and targets [n, ...] of one UE: arrays, CPU tensors or nested lists."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FederatedData:
    """Everybody's samples, in the owner's order: `train[i]` and `test[i]` are those of UE `i`.

    Inputs are bytes (uint8, which models see in [0, 1]), numbers (kept in float32) or tokens (other whole numbers).
    Whole-number targets are classes, of which there are `num_classes` (None: one more than the largest); others are the
    values of a regression. Without `test`, `held_out` of each UE's own samples are set aside for testing.
    `edge_of_ue[i]` is the edge that UE `i` sits under, from 0; without it UEs sit under edges in order, as many as
    `network.ues_per_edge` says. `sample_bits` is what one sample costs to process (None: the bits of its inputs).
    """

    train: Sequence[SamplesOfUe]
    test: Sequence[SamplesOfUe] | None = None
    edge_of_ue: Sequence[int] | NDArray[Any] | None = None
    num_classes: int | None = None
    sample_bits: int | None = None
    held_out: float = 0.2
    name: str = "given"

    def __post_init__(self) -> None:
        self.dataset  # noqa: B018  what is wrong with the samples is said when they are put together

    @property
    def num_ues(self) -> int:
        """N."""
        return len(self.train)

    @cached_property
    def dataset(self) -> Dataset:
        """All samples in one data set, UE after UE, with their owners."""
        inputs, targets, sizes = _joined("train", self.train, like=None)
        if not sizes.all():
            raise DatasetError(f"train[{int(np.argmin(sizes))}] has no samples; every UE needs at least one")
        if self.test is None:
            _check_share(self.held_out)
            test_inputs, test_targets, test_sizes = inputs, targets, None
        else:
            if len(self.test) != len(self.train):
                raise DatasetError(f"test has {len(self.test)} UEs, train has {len(self.train)}; wanted as many")
            test_inputs, test_targets, test_sizes = _joined("test", self.test, like=(inputs, targets))
        return Dataset(
            name=self.name,
            inputs=inputs,
            targets=targets,
            num_classes=_classes(self.num_classes, targets, test_targets),
            test_inputs=test_inputs,
            test_targets=test_targets,
            sample_bits=self.sample_bits or prod(inputs.shape[1:]) * inputs.itemsize * BITS_PER_BYTE,
            owners=Owners(sizes, test_sizes, _edges(self.edge_of_ue, len(sizes)), self.held_out),
        )

    def save(self, folder: str | Path) -> None:
        """Write everybody's samples into a folder that `data.dataset = "folder:PATH"` reads."""
        from hpfl.data.own_files import write_folder  # the files' reader makes what is defined here

        write_folder(self, Path(folder))


def _joined(what: str, parts: Sequence[SamplesOfUe], *, like: tuple[Any, Any] | None) -> tuple[Any, Any, IntArray]:
    """Inputs and targets of all UEs in two arrays, and how many each has; all alike, or a `DatasetError`."""
    if not len(parts):
        raise DatasetError(f"{what} is empty; wanted inputs and targets of at least one UE")
    pairs = [_pair(f"{what}[{ue}]", part) for ue, part in enumerate(parts)]
    columns = []
    for column, name in enumerate(("inputs", "targets")):
        arrays = [pair[column] for pair in pairs]
        there = [array for array in arrays if len(array)] or arrays
        first = there[0] if like is None else like[column][:1]
        for ue, array in enumerate(arrays):
            if len(array) and (array.shape[1:], array.dtype) != (first.shape[1:], first.dtype):
                raise DatasetError(
                    f"{what}[{ue}]: {name} are {array.dtype} of shape {array.shape[1:]}, those of others "
                    f"{first.dtype} of shape {first.shape[1:]}; wanted them alike"
                )
        columns.append(np.concatenate([array for array in arrays if len(array)] or [first[:0]]))
    return columns[0], columns[1], np.array([len(pair[1]) for pair in pairs], dtype=np.int64)


def _pair(where: str, part: SamplesOfUe) -> tuple[NDArray[Any], NDArray[Any]]:
    if not isinstance(part, tuple | list) or len(part) != 2:
        raise DatasetError(f"{where} is {type(part).__name__}; wanted a pair of inputs and targets")
    inputs, targets = _array(f"{where}: inputs", part[0], bytes_stay=True), _array(f"{where}: targets", part[1])
    if len(inputs) != len(targets):
        raise DatasetError(f"{where}: {len(inputs)} inputs but {len(targets)} targets")
    return inputs, targets


def _array(where: str, values: Any, *, bytes_stay: bool = False) -> NDArray[Any]:
    """Values as one array: bytes where they may stay so, else whole numbers in int64 and others in float32."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DatasetError(f"{where} make no array ({error}); wanted arrays, CPU tensors or lists of numbers") from None
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise DatasetError(f"{where} are {array.dtype} of shape {array.shape}; wanted numbers, one row a sample")
    if bytes_stay and array.dtype == np.uint8:
        return array
    return array.astype(np.float32 if array.dtype.kind == "f" else np.int64, copy=False)


def _classes(given: int | None, targets: NDArray[Any], test_targets: NDArray[Any]) -> int | None:
    if targets.dtype.kind == "f":
        if given is not None:
            raise DatasetError(f"num_classes is {given}, and targets are {targets.dtype}; classes are whole numbers")
        return None
    return given or 1 + max(int(targets.max(initial=0)), int(test_targets.max(initial=0)))


def _edges(given: Sequence[int] | NDArray[Any] | None, num_ues: int) -> IntArray | None:
    if given is None:
        return None
    edges = np.asarray(given)
    if edges.shape != (num_ues,) or edges.dtype.kind not in "iu":
        raise DatasetError(
            f"edge_of_ue is {edges.dtype} of shape {edges.shape}; wanted one whole number for each of {num_ues} UEs"
        )
    if edges.min() < 0 or edges.max() >= num_ues or not np.bincount(edges).all():
        raise DatasetError(
            f"edge_of_ue names {np.unique(edges).size} edges from {edges.min()} to {edges.max()}; "
            "edges are numbered from 0 on, and each has a UE"
        )
    return edges.astype(np.int64)


def _check_share(held_out: float) -> None:
    if not 0.0 < held_out < 1.0:
        raise DatasetError(f"held_out is {held_out}; wanted a share between 0 and 1, since there are no test samples")
