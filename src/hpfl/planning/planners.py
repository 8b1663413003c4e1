"""All planners by name behind one signature, and the one call that plans a round."""

from collections.abc import Callable
from dataclasses import replace

from hpfl.planning.alternating import alternating_plan
from hpfl.planning.baselines import full, random, shpfl
from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.fastest import fastest
from hpfl.planning.joint import joint, joint_plan
from hpfl.planning.paper import paper
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.scripted import scripted
from hpfl.registry import Registry
from hpfl.rng import Stream, Streams

Planner = Callable[[RoundProblem, Memory, Stream], tuple[Plan, Memory]]
"""Plans one round; may learn by the memory it hands on, may draw from the stream, keeps nothing of its own."""

PLANNERS: Registry[Planner] = Registry("planner")
PLANNERS.register("joint")(joint_plan)
PLANNERS.register("alternating")(alternating_plan)
PLANNERS.register("paper")(paper)
PLANNERS.register("full")(full)
PLANNERS.register("random")(random)
PLANNERS.register("shpfl")(shpfl)
PLANNERS.register("scripted")(scripted)
PLANNERS.register("fastest")(fastest)

SKETCHING = frozenset({"fastest"})
"""Planners to which UEs send sketches of their updates before a round is planned."""


def plan(problem: RoundProblem, planner: str = "joint", *, seed: int = 0) -> Plan:
    """The named planner's plan of one round with the tight lower bound; `seed` is for planners that draw."""
    return certified(problem, first_plan(problem, planner, seed=seed))


def first_plan(problem: RoundProblem, planner: str, *, seed: int = 0) -> Plan:
    """What the planner itself hands back in a first round, with whatever bound it came by."""
    return PLANNERS.get(planner)(problem, {}, Streams(seed).at("planning"))[0]


def certified(problem: RoundProblem, made: Plan) -> Plan:
    """The plan with the best lower bound known: `joint`'s, unless its own is higher (or it goes beyond the cap)."""
    if made.planner == "joint":
        return made
    try:
        tight = joint(problem).lower_bound
    except ConvergenceError:  # the plan stands, with the bound it came with
        return made
    bound = min(max(made.lower_bound, tight), made.objective)
    scale = problem.scale(made.scheduled, made.round_latency_s)
    return replace(made, lower_bound=bound, relative_gap=(made.objective - bound) / scale if scale > 0 else 0.0)


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
