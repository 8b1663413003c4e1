"""Partitioner `strips`: samples sorted by label and cut in strips, one for each UE (McMahan et al., 2017)."""

import numpy as np
from numpy.typing import NDArray

from hpfl import part
from hpfl.data import PartitionError, PartitionSettings, Shards
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
    """As many samples as are wanted, drawn at random, sorted by label and cut in strips: neighbours are alike."""
    wanted = int(sizes.sum())
    if wanted > len(targets):
        raise PartitionError(f"strips of {wanted:,} samples are wanted, the data has {len(targets):,}")
    drawn = streams.at("strips").permutation(len(targets))
    label = targets[drawn[:wanted]] * (-1 if options.descending else 1)
    order = np.concatenate([drawn[:wanted][np.argsort(label, kind="stable")], drawn[wanted:]])
    return Shards(order, np.arange(len(sizes) + 1), np.cumsum(sizes) - sizes, sizes)
