"""Epochs: every UE's samples in an order of its own, cut into mini-batches; UEs of few samples take fewer steps.

An order is drawn from one keyed word of the UE, whatever its size and whoever else takes part, so that a real UE has
the order of its simulated twin.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpfl.arrays import IntArray
from hpfl.learning.batches import member_draws
from hpfl.rng import Stream

_WORD_BITS = 53  # of a uniform draw
_LAST = np.iinfo(np.uint64).max


def num_steps(sizes: IntArray, batch_size: int, epochs: int) -> IntArray:
    """Local steps of UEs [n]: the last batch of an epoch has what is left of the samples."""
    return epochs * _batches(sizes, batch_size)


def shuffled(stream: Stream, ues: IntArray, sizes: IntArray) -> IntArray:
    """A random order of each UE's samples, [n, largest]; what lies beyond its size is padding."""
    words = (member_draws(stream, ues, 1) * 2.0**_WORD_BITS).astype(np.uint64)
    places = np.arange(int(sizes.max(initial=1)))
    lots = np.where(places < sizes[:, None], _mixed(words + places.astype(np.uint64) * _ODD), _LAST)
    return np.argsort(lots, axis=1, kind="stable").astype(np.int64)


def slices(orders: Sequence[IntArray], sizes: IntArray, batch_size: int) -> list[tuple[IntArray, IntArray]]:
    """The samples of each step [n, batch_size], and how many of them count [n]: none once a UE has taken its steps."""
    each, rows = _batches(sizes, batch_size), np.arange(len(sizes))[:, None]
    stacked, most = np.stack(orders), int(each.max(initial=0))
    found = []
    for step in range(len(orders) * most):
        epoch, number = np.divmod(step, np.maximum(each, 1))
        first = number * batch_size
        counts = np.where(epoch < len(orders), np.clip(sizes - first, 0, batch_size), 0)
        places = np.minimum(first[:, None] + np.arange(batch_size), stacked.shape[2] - 1)
        index = stacked[np.minimum(epoch, len(orders) - 1)[:, None], rows, places]
        found.append((np.where(np.arange(batch_size) < counts[:, None], index, 0), counts))
    return found


def _batches(sizes: IntArray, batch_size: int) -> IntArray:
    return -(-sizes // batch_size)


_ODD = np.uint64(0x9E3779B97F4A7C15)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words scrambled one by one (SplitMix64: Steele, Lea, Flood, OOPSLA 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
