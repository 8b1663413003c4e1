"""Planner `rested`: the most important updates among edges that have had their rest."""

from hpfl import part
from hpfl.options import Options, option
from hpfl.planning import Memory, Plan, RoundProblem, allocate, finish_plan
from hpfl.rng import Stream


class RestedOptions(Options):
    """Options of planner `rested`."""

    rest: int = option(1, "rounds an edge rests after an upload", unit="rounds", ge=0)


@part(options=RestedOptions, reads=("max_edges",))
def rested(problem: RoundProblem, memory: Memory, stream: Stream, *, options: RestedOptions) -> tuple[Plan, Memory]:
    """The max_edges most important updates of edges that have rested long enough; those that are due in any case."""
    del stream
    turn, last = int(memory.get("turn", 0)), dict(memory.get("last", {}))
    ready = [k for k, name in enumerate(problem.names) if turn - last.get(name, -1 - options.rest) > options.rest]
    wanted = sorted(ready or range(problem.num_edges), key=lambda k: (-problem.importance[k], k))
    scheduled = problem.must.copy()
    scheduled[[k for k in wanted if problem.able[k]][: problem.max_edges]] = True
    last |= {name: turn for name, taken in zip(problem.names, scheduled, strict=True) if taken}
    plan = finish_plan(problem, allocate(problem, scheduled), "rested", lower_bound=float("-inf"))
    return plan, {**memory, "turn": turn + 1, "last": last}
