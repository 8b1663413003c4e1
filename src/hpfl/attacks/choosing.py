"""Who is hostile: a share of the edges or of the UEs of every cell, drawn by the seed, or those that are named."""

from collections.abc import Sequence

import numpy as np

from hpfl.arrays import BoolArray, IntArray
from hpfl.rng import Stream, Streams

Members = float | Sequence[int]
"""A share, or numbers."""


def share_of(count: int, share: float) -> int:
    """How many of so many a share is, rounded to the nearest."""
    return int(np.floor(share * count + 0.5))


def hostile_edges(chosen: Members, num_edges: int, streams: Streams) -> BoolArray:
    """Which edges are hostile, [K]."""
    if not isinstance(chosen, float):
        return _named(chosen, num_edges)
    return _drawn(num_edges, chosen, streams.at("hostile/edges"))


def hostile_ues(chosen: Members, ues_of_edges: IntArray, streams: Streams) -> BoolArray:
    """Which UEs are hostile, [N]: a share of each cell's as they sit at first, or those named."""
    if not isinstance(chosen, float):
        return _named(chosen, int(ues_of_edges.sum()))
    cells = enumerate(ues_of_edges.tolist())
    return np.concatenate([_drawn(count, chosen, streams.at("hostile/ues", edge)) for edge, count in cells])


def _named(numbers: Sequence[int], count: int) -> BoolArray:
    found = np.zeros(count, dtype=np.bool_)
    found[list(numbers)] = True
    return found


def _drawn(count: int, share: float, stream: Stream) -> BoolArray:
    found = np.zeros(count, dtype=np.bool_)
    found[stream.choice(count, share_of(count, share))] = True
    return found
