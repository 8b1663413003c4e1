"""Which shard goes to which UE: like UEs gathered under one edge, dealt at random, or anything between."""

import numpy as np

from hpfl.arrays import IntArray
from hpfl.data.shards import PartitionError
from hpfl.rng import Streams


def arrange_by_skew(label_counts: IntArray, edge_skew: float, *, streams: Streams) -> IntArray:
    """A permutation: UE `j` (UEs are sorted by edge) receives shard `permutation[j]`.

    All shards are first sorted by likeness, so that consecutive UEs, and so the UEs of an edge, are alike. Then each
    shard stays in its place with probability `edge_skew`; the others are shuffled among the places they leave.
    The lot that frees a shard at one skew frees it at every smaller one.
    """
    if not 0.0 <= edge_skew <= 1.0:
        raise PartitionError(f"data.edge_skew is {edge_skew}; it must lie between 0 and 1")
    permutation = np.argsort(likeness_key(label_counts), kind="stable").astype(np.int64)
    lots = streams.at("skew-stay").uniform(len(permutation))
    loose = np.flatnonzero(lots[permutation] >= edge_skew)
    permutation[loose] = permutation[loose][streams.at("skew-shuffle").permutation(len(loose))]
    return permutation


def likeness_key(label_counts: IntArray) -> IntArray:
    """A number per shard, int64[N], near for like shards: the labels it holds, the heaviest first, as digits.

    A label's weight is rounded to whole even shares (1 for each label of an even split), so that a sample more or
    less changes nothing.
    """
    num_classes = label_counts.shape[1]
    held = np.count_nonzero(label_counts, axis=1)
    size = np.maximum(label_counts.sum(axis=1), 1)
    level = np.rint(label_counts * (held / size)[:, None]).astype(np.int64)
    digits = np.argsort(-level, axis=1, kind="stable")
    digits = np.where(np.take_along_axis(level, digits, axis=1) > 0, digits, num_classes)
    depth = min(num_classes, int(62 / np.log2(num_classes + 1)))
    place_values = (num_classes + 1) ** np.arange(depth - 1, -1, -1, dtype=np.int64)
    return np.asarray(digits[:, :depth] @ place_values, dtype=np.int64)
