"""How UEs share a data set: the partitioners by name, and the shards they make for training and for testing."""

from typing import Protocol

import numpy as np

from hpfl.arrays import IntArray
from hpfl.data.dataset import Targets
from hpfl.data.dirichlet import partition_dirichlet
from hpfl.data.iid import partition_iid
from hpfl.data.label_placement import PartitionSettings, apportion, place_overlapping
from hpfl.data.labels import partition_labels
from hpfl.data.shards import PartitionError, Shards
from hpfl.data.skew import arrange_by_skew
from hpfl.registry import Registry
from hpfl.rng import Streams

__all__ = [
    "PARTITIONERS",
    "PartitionError",
    "PartitionSettings",
    "Partitioner",
    "Shards",
    "arrange_by_skew",
    "make_shards",
    "make_test_shards",
]


class Partitioner(Protocol):
    """A shard of `sizes[i]` samples for every UE `i`; disjoint unless the settings say otherwise."""

    def __call__(
        self, targets: IntArray, num_classes: int, sizes: IntArray, *, settings: PartitionSettings, streams: Streams
    ) -> Shards: ...


PARTITIONERS: Registry[Partitioner] = Registry(
    "partitioner",
    traits={"reads": None},
    called=("labels", "num_classes", "sizes", "settings=", "streams="),
)
"""Trait `reads`: which of the settings `labels_per_ue` and `concentration` matter to it (None: both may)."""
PARTITIONERS.register("labels", reads=("labels_per_ue",))(partition_labels)
PARTITIONERS.register("dirichlet", reads=("concentration",))(partition_dirichlet)
PARTITIONERS.register("iid", reads=())(partition_iid)


def make_shards(
    partitioner: str | Partitioner,
    targets: Targets,
    *,
    num_classes: int | None,
    sizes: IntArray,
    settings: PartitionSettings,
    streams: Streams,
) -> Shards:
    """Training shards of N UEs sorted by edge: dealt by the partitioner, then gathered by `edge_skew`.

    `sizes` (int64[N]) are the shards' sizes in no particular order: which UE gets which shard depends on the skew, so
    read a UE's number of samples from the result's `sizes`.
    """
    partition = PARTITIONERS.get(partitioner) if isinstance(partitioner, str) else partitioner
    if sizes.ndim != 1 or (len(sizes) and sizes.min() < 1):
        raise PartitionError("every UE needs at least one sample: sizes must be a row of positive numbers")
    labels, classes = as_labels(targets), num_classes or 1
    shards = partition(labels, classes, sizes, settings=settings, streams=streams)
    if not isinstance(shards, Shards):
        raise PartitionError(f"partitioner {partitioner} answers with {type(shards).__name__}; wanted Shards")
    places = arrange_by_skew(shards.label_counts(labels, classes), settings.edge_skew, streams=streams)
    placed = shards.take(places)
    return placed.in_ue_order() if settings.disjoint else placed


def make_test_shards(test_targets: Targets, train_counts: IntArray, *, test_samples: int, streams: Streams) -> Shards:
    """`test_samples` test samples for every UE, in the proportions of its training labels; UEs may share samples.

    `train_counts` is `label_counts` of the training shards, int64[N, C].
    """
    if test_samples < 1:
        raise PartitionError(f"evaluation.test_samples is {test_samples}; it must be at least 1")
    sizes = np.full(len(train_counts), test_samples, dtype=np.int64)
    counts = apportion(sizes, train_counts.astype(np.float64), streams.at("test-remainder"))
    return place_overlapping(counts, as_labels(test_targets), streams=streams, purpose="test")


def as_labels(targets: Targets) -> IntArray:
    """Class numbers as they are; the targets of a regression count as one class."""
    if targets.dtype == np.int64:
        return np.asarray(targets, dtype=np.int64)
    return np.zeros(len(targets), dtype=np.int64)
