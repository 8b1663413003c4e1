"""All planners by name behind one signature, and the one call that plans a round."""

from collections.abc import Callable

from hpfl.planning.baselines import full, random, shpfl
from hpfl.planning.paper import paper
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.registry import Registry
from hpfl.rng import Stream, Streams

Planner = Callable[[RoundProblem, Memory, Stream], tuple[Plan, Memory]]
"""Plans one round; may learn by the memory it hands on, may draw from the stream, keeps nothing of its own."""

PLANNERS: Registry[Planner] = Registry("planner")
PLANNERS.register("paper")(paper)
PLANNERS.register("full")(full)
PLANNERS.register("random")(random)
PLANNERS.register("shpfl")(shpfl)


def plan(problem: RoundProblem, planner: str = "joint", *, seed: int = 0) -> Plan:
    """The named planner's plan of one round, certified with the tight lower bound; `seed` is for those that draw."""
    made, _ = PLANNERS.get(planner)(problem, {}, Streams(seed).at("planning"))
    return made


def advice(problem: RoundProblem) -> tuple[str, ...]:
    """What a user should know of a problem before planning it: a line for each setting that works against itself."""
    K, A, S = problem.num_edges, problem.max_edges, problem.staleness_bound
    lines = []
    if A * (S + 1) < K:
        lines.append(
            f"max_edges = {A} with staleness_bound = {S} serves {A * (S + 1)} of {K} edges in time; "
            "edges will reach the bound in crowds and upload beyond max_edges"
        )
    if int(problem.must.sum()) > A:
        lines.append(
            f"{int(problem.must.sum())} edges are at the staleness bound, more than max_edges = {A}; all upload"
        )
    return tuple(lines)
