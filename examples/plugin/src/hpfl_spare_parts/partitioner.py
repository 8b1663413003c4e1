"""Partitioner `strips`: the samples sorted by label and cut in strips, one after the other (McMahan et al., 2017)."""

import numpy as np

from hpfl import part
from hpfl.data import PartitionSettings, Shards
from hpfl.options import Options, option
from hpfl.rng import Streams


class StripsOptions(Options):
    """Options of partitioner `strips`."""

    descending: bool = option(False, "begin with the last label")


@part(options=StripsOptions, reads=())
def strips(targets, num_classes: int, sizes, *, settings: PartitionSettings, streams: Streams, options: StripsOptions):
    """Strips of the samples sorted by label: neighbours have like labels."""
    del num_classes, settings
    shuffled = streams.at("strips").permutation(len(targets))
    sign = -1 if options.descending else 1
    order = shuffled[np.argsort(sign * targets[shuffled], kind="stable")]
    ends = np.cumsum(sizes)
    return Shards(order, np.arange(len(sizes) + 1), ends - sizes, sizes)
