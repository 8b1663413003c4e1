"""A mean that grows as vectors arrive: one float64 sum, however many there are."""

import numpy as np

from hpfl.deployment.wire import Vector


class RunningMean:
    """`sum_i n_i x_i / sum_i n_i` in the order of arrival, in memory for one vector."""

    def __init__(self, length: int) -> None:
        self._total = np.zeros(length)
        self._term = np.empty(length)
        self.weight = 0.0
        self.count = 0

    def restart(self) -> None:
        """Begin another mean in the same memory."""
        self._total.fill(0.0)
        self.weight, self.count = 0.0, 0

    def add(self, vector: Vector, weight: float) -> None:
        """One more member."""
        np.multiply(vector, np.float64(weight), out=self._term)  # a plain float would multiply in float32
        self._total += self._term
        self.weight += weight
        self.count += 1

    def value(self) -> Vector:
        """The mean so far, in float64."""
        return self._total / self.weight
