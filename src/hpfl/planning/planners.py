"""All planners by name behind one signature, and the one call that plans a round."""

from dataclasses import replace
from typing import overload

from hpfl.planning.alternating import alternating_plan
from hpfl.planning.any_time import any_time_least_s
from hpfl.planning.baselines import full, random, shpfl
from hpfl.planning.broadcast import foretold
from hpfl.planning.checking import checked_answer
from hpfl.planning.cycles import random_cycle, round_robin
from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.fastest import fastest
from hpfl.planning.fastest_v1 import fastest_v1
from hpfl.planning.joint import joint, joint_plan
from hpfl.planning.magnitudes import refused_beyond_float64, within_float64
from hpfl.planning.ordering import as_given, by_edge
from hpfl.planning.paper import paper, paper_with_p4
from hpfl.planning.problem import Certificate, Memory, Plan, Planner, RoundProblem
from hpfl.planning.scripted import reads_of_script, scripted
from hpfl.registry import Registry
from hpfl.rng import Streams

PLANNERS: Registry[Planner] = Registry(
    "planner",
    traits={"sketches": False, "arrivals": False, "codings": False, "reads": None},
    called=("problem", "memory", "stream"),
)
"""Trait `sketches`: UEs send sketches of their updates before a round is planned; "free": only where the downlink is
and uploads are whole. Trait `arrivals`: the round leaves sketches of the updates that arrived in its memory. Trait
`codings`: it chooses from the menu of codings and knows their noise. Trait `reads`: which of the keys `rho`, `phi` and
`max_edges` matter to it, as a tuple or a function of its options to one (None: they all may)."""

_WEIGHED = ("rho", "phi", "max_edges")
PLANNERS.register("joint", reads=_WEIGHED)(within_float64(joint_plan))
PLANNERS.register("alternating", reads=_WEIGHED)(within_float64(alternating_plan))
PLANNERS.register("paper", reads=_WEIGHED)(within_float64(paper))
PLANNERS.register("paper+p4", reads=_WEIGHED)(within_float64(paper_with_p4))
PLANNERS.register("full", reads=())(within_float64(full))
PLANNERS.register("random", reads=("max_edges",))(within_float64(random))
PLANNERS.register("shpfl", reads=("max_edges",))(within_float64(shpfl))
PLANNERS.register("round-robin", reads=())(within_float64(round_robin))
PLANNERS.register("random-cycle", reads=())(within_float64(random_cycle))
PLANNERS.register("scripted", options="hpfl.planning.planner_options:ScriptedOptions", reads=reads_of_script)(
    within_float64(scripted)
)
PLANNERS.register(
    "fastest-v1", options="hpfl.planning.planner_options:FirstFastestOptions", sketches=True, reads=("max_edges",)
)(within_float64(fastest_v1))
PLANNERS.register(
    "fastest",
    options="hpfl.planning.planner_options:FastestOptions",
    sketches="free",
    arrivals=True,
    codings=True,
    reads=("max_edges",),
)(within_float64(fastest))


@overload
def plan(
    problem: RoundProblem,
    planner: str | Planner = ...,
    *,
    memory: None = None,
    seed: int = ...,
    round: int = ...,
    certify: bool = ...,
) -> Plan: ...


@overload
def plan(
    problem: RoundProblem,
    planner: str | Planner = ...,
    *,
    memory: Memory,
    seed: int = ...,
    round: int = ...,
    certify: bool = ...,
) -> tuple[Plan, Memory]: ...


def plan(
    problem: RoundProblem,
    planner: str | Planner = "joint",
    *,
    memory: Memory | None = None,
    seed: int = 0,
    round: int = 0,  # noqa: A002  "round" is the field's own word
    certify: bool = True,
) -> Plan | tuple[Plan, Memory]:
    """The plan of one round, checked; and given a `memory` ({} in the first round), also the one for the next round.

    `planner` is a name or a function. `seed` and `round` are for planners that draw, which draw anew in every round.
    The lower bound is `joint`'s, which takes as long as planning with `joint`; without `certify` it is the planner's
    own. UEs may come in any order and are answered in it.
    """
    sorted_problem, order = by_edge(problem)
    chosen = PLANNERS.get(planner) if isinstance(planner, str) else planner
    stream = Streams(seed).at("planning", round)
    made, kept = checked_answer(
        chosen(sorted_problem, {} if memory is None else memory, stream), sorted_problem, f"planner {name_of(chosen)}"
    )
    made = foretold(sorted_problem, made)
    made = as_given(certified(sorted_problem, made) if certify else made, order)
    return made if memory is None else (made, kept)


def name_of(planner: Planner) -> str:
    """What a planner is called: as it is registered, with whatever options, or else as a function."""
    made = getattr(planner, "func", planner)  # of one that has been given its options
    return PLANNERS.name_of(made) or str(getattr(made, "__name__", type(made).__name__))


def certified(problem: RoundProblem, made: Plan) -> Plan:
    """The plan with the best lower bound known: `joint`'s, unless its own is higher (or it goes beyond the cap).

    Under spectrum `phased` that is a bound for one switch; how early its set could finish with any bandwidth over time
    is said beside it.
    """
    if problem.spectrum == "phased":
        least_s = any_time_least_s(problem, made.scheduled, made.round_latency_s)
        made = replace(made, any_time_least_s=least_s)
    if made.planner == "joint":
        return made
    problem = problem.coded(made.coding)
    try:
        with refused_beyond_float64(problem):
            tight = joint(problem).lower_bound
    except ConvergenceError:  # the plan stands, with the bound it came with
        return made
    bound = min(max(made.lower_bound, tight), made.objective)
    scale = problem.scale(made.scheduled, made.round_latency_s)
    covers: Certificate = "fixed" if problem.spectrum == "fixed" else "one switch"
    gap = (made.objective - bound) / scale if scale > 0 else 0.0
    return replace(made, lower_bound=bound, relative_gap=gap, bound_covers=covers)


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


def caution(problem: RoundProblem, made: Plan) -> tuple[str, ...]:
    """What a user should know of a plan: that it goes beyond the cap, where it does."""
    if not made.exceeds_cap:
        return ()
    count = int(made.scheduled.sum())
    return (f"planner {made.planner} schedules {count} edges, beyond max_edges = {problem.max_edges}",)
