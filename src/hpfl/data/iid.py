"""Partitioner `iid`: every UE's samples are a random draw from the whole data set."""

import numpy as np

from hpfl.arrays import IntArray
from hpfl.data.label_placement import PartitionSettings, check_total, place_overlapping
from hpfl.data.shards import Shards, running_total
from hpfl.rng import Streams


def partition_iid(
    targets: IntArray, num_classes: int, sizes: IntArray, *, settings: PartitionSettings, streams: Streams
) -> Shards:
    """Shards cut from one shuffled copy of the data: one after the other, or each at a random place."""
    if not settings.disjoint:
        return place_overlapping(sizes[:, None], np.zeros_like(targets), streams=streams)
    check_total(sizes, len(targets))
    order = streams.at("training-order").permutation(len(targets))
    return Shards(order, np.arange(len(sizes) + 1), running_total(sizes)[:-1], sizes)
