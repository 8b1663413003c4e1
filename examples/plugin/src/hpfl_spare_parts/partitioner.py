"""Partitioner `strips`: samples sorted by label and cut in strips, one for each UE (McMahan et al., 2017)."""

import numpy as np
from numpy.typing import NDArray

from hpfl import part
from hpfl.data import PartitionSettings, Shards, check_total
from hpfl.options import Options, option
from hpfl.rng import Streams

Numbers = NDArray[np.int64]


class StripsOptions(Options):
    """Options of partitioner `strips`."""

    descending: bool = option(False, "begin with the last label")


@part(options=StripsOptions, reads=())
def strips(
    targets: Numbers,
    num_classes: int,
    sizes: Numbers,
    *,
    settings: PartitionSettings,
    streams: Streams,
    options: StripsOptions,
) -> Shards:
    """Strips of the samples sorted by label, evenly spread over them: each UE has few labels, neighbours the same."""
    if settings.disjoint:
        check_total(sizes, len(targets))
    mixed = streams.at("strips").permutation(len(targets))
    order = mixed[np.argsort(targets[mixed] * (-1 if options.descending else 1), kind="stable")]
    before = np.cumsum(sizes) - sizes
    start = np.minimum(before * len(targets) // sizes.sum(), len(targets) - sizes)
    shards = Shards(order, np.arange(len(sizes) + 1), start, sizes)
    return shards.in_ue_order() if settings.disjoint else shards
