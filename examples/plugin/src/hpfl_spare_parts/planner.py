"""Planner `rested`: the most important updates among edges that have had their rest."""

import numpy as np

from hpfl import part
from hpfl.options import Options, option
from hpfl.planning import Memory, Plan, RoundProblem, plan_for_set
from hpfl.rng import Stream


class RestedOptions(Options):
    """Options of planner `rested`."""

    rest: int = option(1, "rounds an edge rests after an upload", unit="rounds", ge=0)


@part(options=RestedOptions, reads=("max_edges",))
def rested(problem: RoundProblem, memory: Memory, stream: Stream, *, options: RestedOptions) -> tuple[Plan, Memory]:
    """The most important updates of edges that have rested, after those at the staleness bound."""
    turn, last = memory.get("turn", 0), memory.get("last", {})
    tired = np.array([name in last and turn - last[name] <= options.rest for name in problem.names])
    best_first = np.lexsort((-problem.importance, tired, ~problem.able, ~problem.must))  # the last key counts most
    wanted = problem.must | (problem.able & ~tired)
    scheduled = np.zeros(problem.num_edges, dtype=np.bool_)
    scheduled[best_first[: min(max(wanted.sum(), 1), problem.most_edges)]] = True  # where all are tired, the best one
    uploads = {name: turn for name, taken in zip(problem.names, scheduled, strict=True) if taken}
    return plan_for_set(problem, scheduled, "rested"), {**memory, "turn": turn + 1, "last": {**last, **uploads}}
