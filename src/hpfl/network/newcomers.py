"""Newcomers: UEs that never take part in training, so that a model can be tried on those it has not met."""

import numpy as np

from hpfl.arrays import BoolArray, IntArray
from hpfl.rng import Streams


def drawn_newcomers(count: int, edge_of_ue: IntArray, streams: Streams) -> BoolArray:
    """Which UEs never train, bool [N]: `count` of them, drawn once; the last UE of an edge is never one."""
    newcomers = np.zeros(len(edge_of_ue), dtype=np.bool_)
    left = np.bincount(edge_of_ue)
    for ue in streams.at("newcomers").permutation(len(edge_of_ue)).tolist() if count else ():
        if newcomers.sum() == count:
            break
        if left[edge_of_ue[ue]] > 1:
            newcomers[ue] = True
            left[edge_of_ue[ue]] -= 1
    return newcomers
