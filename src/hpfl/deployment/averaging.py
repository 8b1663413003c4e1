"""What an edge makes of its UEs' updates as they arrive: a mean in one sum, or what a combine rule says of them all."""

import numpy as np
import torch

from hpfl.deployment.wire import Vector
from hpfl.training.combine import Combine, Contribution, RuleState, combined
from hpfl.training.edge_round import EdgeSettings, check_room


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

    def add(self, vector: Vector, weight: float, member: int = 0) -> None:
        """One more member, whichever it is."""
        np.multiply(vector, np.float64(weight), out=self._term)  # a plain float would multiply in float32
        self._total += self._term
        self.weight += weight
        self.count += 1

    def value(self) -> Vector:
        """The mean so far, in float64."""
        return self._total / self.weight


class KeptUpdates:
    """All updates of one edge round, for a rule that needs them at once; it remembers as long as the edge runs."""

    def __init__(self, rule: Combine) -> None:
        self._rule = rule
        self._remembered: RuleState = {}
        self._came: list[Contribution] = []

    def restart(self) -> None:
        """Let go of what came."""
        self._came = []

    def add(self, vector: Vector, weight: float, member: int) -> None:
        """One more member's update."""
        self._came.append(Contribution(member, torch.from_numpy(vector), weight))

    def value(self) -> Vector:
        """What the rule makes of them in the order of the members, in float64; asked once for each round."""
        joined = combined(self._rule, self._came, self._remembered)
        self._remembered = joined.state
        return np.asarray(joined.direction.numpy())


def joined_by(settings: EdgeSettings, *, num_ues: int, length: int, bytes_each: int) -> RunningMean | KeptUpdates:
    """How an edge with so many UEs joins their updates; refused where its rule must keep more than fits its memory."""
    if settings.combine is None:
        return RunningMean(length)
    check_room(settings, np.array([num_ues]), num_parameters=length, bytes_each=bytes_each)
    return KeptUpdates(settings.combine)
