"""UEs that leave and come back: a two-state process in steps of a round."""

from dataclasses import dataclass

import numpy as np

from hpfl.arrays import BoolArray, FloatArray


@dataclass(frozen=True, kw_only=True)
class TwoState:
    """Chances per round that a UE leaves, and that one that is away comes back; at first all are there."""

    leave: float
    come_back: float

    def step(self, available: BoolArray, lots: FloatArray) -> BoolArray:
        """Who is there a round later; `lots` are uniform in [0, 1), one per UE."""
        return np.where(available, lots >= self.leave, lots < self.come_back)
