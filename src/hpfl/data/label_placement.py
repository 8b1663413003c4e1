"""From how many samples of each label a UE wants to which samples it gets; shared by all partitioners."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import FloatArray, IntArray
from hpfl.data.shards import PartitionError, Shards, concatenated_ranges, running_total
from hpfl.rng import Stream, Streams

REMEDY = "take smaller shards or fewer UEs, or let shards overlap with data.disjoint = false"
_REMEDY_FOR_ONE_UE = {
    "training": "take smaller shards, or more labels per UE",
    "test": "lower evaluation.test_samples",
}


@dataclass(frozen=True, kw_only=True)
class PartitionSettings:
    """What a partitioner may be told; each reads what concerns it.

    `labels_per_ue` is l of the paper's section 7.1, `concentration` that of the Dirichlet distribution of a UE's
    labels, `edge_skew` how far like UEs are gathered under one edge, from 0 to 1.
    """

    labels_per_ue: int = 2
    concentration: float = 0.5
    disjoint: bool = True
    edge_skew: float = 0.0


def apportion(sizes: IntArray, weights: FloatArray, stream: Stream) -> IntArray:
    """Each UE's size split over labels in proportion to its weights, by largest remainder, int64[N, C]."""
    quota = sizes[:, None] * (weights / weights.sum(axis=1, keepdims=True))
    counts: IntArray = np.floor(quota).astype(np.int64)
    tie_break = 1e-6 * stream.uniform(quota.size).reshape(quota.shape)
    rank = np.argsort(np.argsort(counts - quota - tie_break, axis=1), axis=1)
    missing = sizes - counts.sum(axis=1)
    counts += rank < missing[:, None]
    return counts


def fit_to_classes(
    counts: IntArray, weights: FloatArray, *, available: IntArray, keep: int, streams: Streams
) -> IntArray:
    """Wanted samples int64[N, C] with every label's total brought down to what is available, every UE's size kept.

    Samples of an overdrawn label are taken back from UEs at random (each keeps `keep` of them) and drawn anew among the
    labels that are left, by the UE's weights. Every pass closes a label for good, so there are at most C.
    """
    wanted, fitted = counts, counts.copy()
    for attempt in range(counts.shape[1] + 1):
        if not np.any(fitted.sum(axis=0) > available):
            return fitted
        displaced = _take_back_excess(fitted, available, keep=keep, attempt=attempt, streams=streams)
        weights = np.where(fitted.sum(axis=0) < available, weights, 0.0)
        if displaced is None or not np.all(weights[displaced].sum(axis=1) > 0):
            break
        _draw_anew(fitted, weights, displaced, streams.at("partition-redraw", attempt))
    raise PartitionError(_shortage(wanted.sum(axis=0), available))


def place(counts: IntArray, targets: IntArray, *, disjoint: bool, streams: Streams) -> Shards:
    """Shards with `counts[i, c]` samples of label c for UE i, disjoint or at random places."""
    if disjoint:
        return _place_disjoint(counts, targets, streams)
    return place_overlapping(counts, targets, streams=streams)


def place_overlapping(counts: IntArray, targets: IntArray, *, streams: Streams, purpose: str = "training") -> Shards:
    """Shards that may share samples: per UE and label a range at a random place of the label's samples.

    A range that reaches past the label's last sample goes on at its first, as a second segment. `purpose` is
    "training" or "test".
    """
    order, first = _sorted_by_label(targets, counts.shape[1], streams.at(f"{purpose}-order"))
    ue, label = np.nonzero(counts)
    wanted, available = counts[ue, label], np.diff(first)[label]
    _check_each_range(ue, label, wanted=wanted, available=available, purpose=purpose)
    shift = (streams.at(f"{purpose}-offset").uniform(len(ue)) * available).astype(np.int64)
    head = np.minimum(wanted, available - shift)
    start = np.stack([first[label] + shift, first[label]], axis=1).ravel()
    length = np.stack([head, wanted - head], axis=1).ravel()
    held = length > 0
    per_ue = np.bincount(np.repeat(ue, 2)[held], minlength=len(counts))
    return Shards(order, running_total(per_ue), start[held], length[held])


def check_total(sizes: IntArray, num_samples: int) -> None:
    """Disjoint shards cannot hold more samples than there are."""
    total = int(sizes.sum())
    if total > num_samples:
        raise PartitionError(
            f"disjoint shards of {len(sizes):,} UEs want {total:,} samples, the data has {num_samples:,}; {REMEDY}"
        )


def _place_disjoint(counts: IntArray, targets: IntArray, streams: Streams) -> Shards:
    order, first = _sorted_by_label(targets, counts.shape[1], streams.at("training-order"))
    before = np.cumsum(counts, axis=0) - counts
    by_ue = concatenated_ranges((first[:-1] + before).ravel(), counts.ravel())
    sizes = counts.sum(axis=1)
    left_over = np.ones(len(order), dtype=np.bool_)
    left_over[by_ue] = False
    arranged = np.concatenate([order[by_ue], order[left_over]])
    return Shards(arranged, np.arange(len(sizes) + 1), running_total(sizes)[:-1], sizes)


def _sorted_by_label(targets: IntArray, num_classes: int, stream: Stream) -> tuple[IntArray, IntArray]:
    """Source rows label by label, in random order within a label, and where each label begins, int64[C + 1]."""
    order = np.lexsort((stream.uniform(len(targets)), targets)).astype(np.int64)
    return order, running_total(np.bincount(targets, minlength=num_classes))


def _take_back_excess(
    counts: IntArray, available: IntArray, *, keep: int, attempt: int, streams: Streams
) -> IntArray | None:
    """Bring overdrawn labels down to what is available, in place; the UE of every sample taken back, or None."""
    displaced = []
    for label in np.flatnonzero(counts.sum(axis=0) > available):
        holders = np.repeat(np.arange(len(counts)), np.maximum(counts[:, label] - keep, 0))
        excess = int(counts[:, label].sum() - available[label])
        if excess > len(holders):
            return None
        lots = streams.at(f"partition-trim-{label}", attempt)
        chosen = holders[lots.permutation(len(holders))[:excess]]
        counts[:, label] -= np.bincount(chosen, minlength=len(counts))
        displaced.append(chosen)
    return np.concatenate(displaced)


def _draw_anew(counts: IntArray, weights: FloatArray, ues: IntArray, stream: Stream) -> None:
    """One more sample for each of `ues` (repeats allowed), its label drawn by the UE's weights; in place."""
    cumulative = np.cumsum(weights[ues], axis=1)
    total = cumulative[:, -1]
    level = np.minimum(stream.uniform(len(ues)) * total, np.nextafter(total, 0.0))
    labels = np.argmax(cumulative > level[:, None], axis=1)
    np.add.at(counts, (ues, labels), 1)


def _check_each_range(ue: IntArray, label: IntArray, *, wanted: IntArray, available: IntArray, purpose: str) -> None:
    short = np.flatnonzero(wanted > available)
    if len(short):
        worst = short[np.argmax(wanted[short] - available[short])]
        raise PartitionError(
            f"UE {ue[worst]} wants {wanted[worst]:,} different {purpose} samples of label {label[worst]}, "
            f"the data has {available[worst]:,} ({len(short):,} such cases); {_REMEDY_FOR_ONE_UE[purpose]}"
        )


def _shortage(wanted: IntArray, available: IntArray) -> str:
    short = np.flatnonzero(wanted > available)
    cases = "; ".join(f"label {c}: {wanted[c]:,} wanted, {available[c]:,} available" for c in short)
    return f"the data cannot fill disjoint shards ({cases}); {REMEDY}"
