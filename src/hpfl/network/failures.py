"""Things that go wrong by chance: uploads that arrive spoilt, edges that die."""

import numpy as np

from hpfl.arrays import BoolArray
from hpfl.rng import Stream


def struck(stream: Stream, count: int, probability: float) -> BoolArray:
    """Which of `count` members are struck in this stream's round."""
    if probability <= 0:
        return np.zeros(count, dtype=np.bool_)
    return stream.uniform(count) < probability
