"""Shards of samples that have owners: each UE trains and is tested on its own, in the owners' order."""

import numpy as np

from hpfl.arrays import IntArray
from hpfl.data.dataset import Owners
from hpfl.data.shards import Shards, running_total
from hpfl.rng import Streams


def own_shards(owners: Owners, places: IntArray, streams: Streams) -> tuple[Shards, Shards]:
    """Training and test shards; UE `j` of the network is UE `places[j]` of the data.

    Test samples that have to be held out are drawn by the seed, the same whatever the network.
    """
    if owners.test_sizes is None:
        held = _held_out(owners, streams)
        sizes, order = owners.sizes, np.lexsort((held, _owner_of(owners.sizes)))
        tests = np.bincount(_owner_of(sizes), weights=held, minlength=len(sizes)).astype(np.int64)
        first = running_total(sizes)[:-1]
        parts = ((order, first, sizes - tests), (order, first + sizes - tests, tests))
    else:
        parts = (_in_order(owners.sizes), _in_order(owners.test_sizes))
    segments = np.arange(len(owners.sizes) + 1)
    train, test = (Shards(order, segments, start, length).take(places).in_ue_order() for order, start, length in parts)
    return train, test


def _in_order(sizes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    return np.arange(int(sizes.sum())), running_total(sizes)[:-1], sizes


def _owner_of(sizes: IntArray) -> IntArray:
    return np.repeat(np.arange(len(sizes)), sizes)


def _held_out(owners: Owners, streams: Streams) -> np.ndarray:
    """Which samples are set aside: `held_out` of each UE's, at least one, but never its last."""
    sizes, owner_of = owners.sizes, _owner_of(owners.sizes)
    wanted = np.minimum(np.maximum(np.rint(owners.held_out * sizes).astype(np.int64), 1), sizes - 1)
    lots = np.lexsort((streams.at("held-out").uniform(len(owner_of)), owner_of))
    rank = np.empty_like(lots)
    rank[lots] = np.arange(len(lots)) - running_total(sizes)[:-1][owner_of]
    return np.asarray(rank < wanted[owner_of])
