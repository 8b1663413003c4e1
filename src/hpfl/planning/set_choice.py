"""What a search for the best set of edges minimises, and the best set it has seen."""

from dataclasses import dataclass, field

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.bandwidth import InfeasibleError, allocate
from hpfl.planning.problem import Allocation, RoundProblem

_SAME = 1e-10  # objectives closer than this, relative to the plan's scale, count as equal


@dataclass(frozen=True, kw_only=True)
class SetChoice:
    """Minimise `latency_weight O - sum values` over sets of `least .. most` allowed edges that contain `must`."""

    problem: RoundProblem
    values: FloatArray
    latency_weight: float
    must: BoolArray
    allowed: BoolArray
    least: int
    most: int

    def objective(self, scheduled: BoolArray, latency_s: float) -> float:
        """What is minimised."""
        return float(self.latency_weight * latency_s - self.values[scheduled].sum())

    def most_valuable(self) -> BoolArray:
        """The set of greatest value: no set that takes longer can be better."""
        rank = np.where(self.must, np.inf, np.where(self.allowed, self.values, -np.inf))
        chosen = np.zeros(rank.size, dtype=np.bool_)
        size = np.clip(int((rank > 0).sum()), self.least, min(self.most, int(self.allowed.sum())))
        chosen[np.argsort(-rank, kind="stable")[:size]] = True
        return chosen


@dataclass
class Incumbent:
    """The best set so far, with the certified floor of every set looked at."""

    task: SetChoice
    allocation: Allocation | None = None
    objective: float = np.inf
    floor: float = np.inf
    seen: set[bytes] = field(default_factory=set)

    @property
    def best(self) -> Allocation:
        """The allocation of the best set looked at."""
        if self.allocation is None:
            raise LookupError("no set was looked at")
        return self.allocation

    @property
    def scale(self) -> float:
        """`sum |values| + latency_weight O` of the best set."""
        worth = np.abs(self.task.values[self.best.scheduled]).sum()
        return float(worth + self.task.latency_weight * self.best.round_latency_s)

    @property
    def cutoff(self) -> float:
        """A bound at or above this holds no better set."""
        return self.objective - _SAME * self.scale

    def look_at(self, scheduled: BoolArray) -> bool:
        """Allot bandwidth to a set not seen before, and keep it if it is the best; whether it was."""
        key = np.packbits(scheduled).tobytes()
        if key in self.seen:
            return False
        self.seen.add(key)
        allocation = allocate(self.task.problem, scheduled)
        objective = self.task.objective(scheduled, allocation.round_latency_s)
        self.floor = min(self.floor, self.task.objective(scheduled, allocation.least_latency_s))
        if objective >= self.objective:
            return False
        self.allocation, self.objective = allocation, objective
        return True


def task_of(problem: RoundProblem) -> SetChoice:
    """P2 as the search sees it: edges that can finish, and how many of them."""
    allowed = problem.able
    if (problem.must & ~allowed).any() or not allowed.any():
        allocate(problem, problem.must if problem.must.any() else ~allowed)
        raise InfeasibleError("no edge can finish its round")
    return SetChoice(
        problem=problem,
        values=problem.values,
        latency_weight=1.0 - problem.rho,
        must=problem.must,
        allowed=allowed,
        least=max(1, int(problem.must.sum())),
        most=min(problem.most_edges, int(allowed.sum())),
    )
