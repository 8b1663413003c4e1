"""Partitioner `labels`: every UE has l of the labels and its own number of samples (paper, section 7.1)."""

import numpy as np

from hpfl.arrays import IntArray
from hpfl.data.label_placement import PartitionSettings, check_total, fit_to_classes, place
from hpfl.data.shards import PartitionError, Shards
from hpfl.rng import Streams


def partition_labels(
    targets: IntArray, num_classes: int, sizes: IntArray, *, settings: PartitionSettings, streams: Streams
) -> Shards:
    """Shards of `labels_per_ue` labels each, a UE's size split over its labels as evenly as the data allow."""
    _check(num_classes, sizes, settings.labels_per_ue)
    labels = deal_labels(sizes, num_classes, labels_per_ue=settings.labels_per_ue, streams=streams)
    counts = np.zeros((len(sizes), num_classes), dtype=np.int64)
    np.put_along_axis(counts, labels, _even_parts(sizes, settings.labels_per_ue), axis=1)
    if settings.disjoint:
        check_total(sizes, len(targets))
        available = np.bincount(targets, minlength=num_classes)
        held = (counts > 0).astype(np.float64)
        counts = fit_to_classes(counts, held, available=available, keep=1, streams=streams)
    return place(counts, targets, disjoint=settings.disjoint, streams=streams)


def deal_labels(sizes: IntArray, num_classes: int, *, labels_per_ue: int, streams: Streams) -> IntArray:
    """The labels of every UE, int64[N, l], dealt so that the samples wanted of each label are nearly equal.

    UEs sit down in order of size, C to a table; each table has its own shuffled ring of the labels, and the UE in
    seat j takes l in a row from place j. A full table wants every label l times from UEs of nearly one size, so over
    all full tables two labels differ by at most (largest - smallest size), plus one sample per holder from rounding.
    """
    num_ues = len(sizes)
    by_size = np.lexsort((streams.at("partition-seat").uniform(num_ues), -sizes))
    tables = -(-num_ues // num_classes)
    lots = streams.at("partition-ring").uniform(tables * num_classes).reshape(tables, num_classes)
    table, seat = np.divmod(np.arange(num_ues), num_classes)
    places = (seat[:, None] + np.arange(labels_per_ue)) % num_classes
    labels = np.empty((num_ues, labels_per_ue), dtype=np.int64)
    labels[by_size] = np.argsort(lots, axis=1)[table[:, None], places]
    return labels


def _even_parts(sizes: IntArray, parts: int) -> IntArray:
    """Each size as `parts` whole numbers that differ by at most one, the larger first, int64[N, parts]."""
    return sizes[:, None] // parts + (np.arange(parts) < (sizes % parts)[:, None])


def _check(num_classes: int, sizes: IntArray, labels_per_ue: int) -> None:
    if not 1 <= labels_per_ue <= num_classes:
        raise PartitionError(
            f"data.labels_per_ue is {labels_per_ue}; it must lie between 1 and the data's {num_classes} labels"
        )
    if len(sizes) and sizes.min() < labels_per_ue:
        ue = int(np.argmin(sizes))
        raise PartitionError(f"UE {ue} has {sizes[ue]} samples, too few for data.labels_per_ue = {labels_per_ue}")
