"""Planner `scripted`: replays given schedules, so that a worked example can be run."""

from collections.abc import Sequence

import numpy as np

from hpfl.planning.bandwidth import allocate
from hpfl.planning.baselines import checked, quick_bound
from hpfl.planning.outcome import finish_plan
from hpfl.planning.problem import BoolArray, Memory, Plan, RoundProblem
from hpfl.rng import Stream

SCRIPT, NEXT = "script", "next"


def scripted(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """The edges a script names round by round, over and over, with exact bandwidth; without one, edges in turn."""
    del stream
    turn = int(memory.get(NEXT, 0))
    script: Sequence[Sequence[int]] = memory.get(SCRIPT) or ()
    wanted = _named(problem, script[turn % len(script)]) if script else _in_turn(problem, turn)
    scheduled = checked(problem, problem.must | wanted) if wanted.any() or problem.must.any() else _anyone(problem)
    over = int(scheduled.sum()) > problem.most_edges
    plan = finish_plan(
        problem, allocate(problem, scheduled), "scripted", lower_bound=quick_bound(problem), exceeds_cap=over
    )
    return plan, {**memory, NEXT: turn + 1}


def _named(problem: RoundProblem, edges: Sequence[int]) -> BoolArray:
    """The edges of that name that are there; a problem without names has them in order."""
    wanted = {str(edge) for edge in edges}
    return np.array([name in wanted for name in problem.names], dtype=np.bool_)


def _in_turn(problem: RoundProblem, turn: int) -> BoolArray:
    """`max_edges` edges after those of the last turn."""
    seats = max(problem.most_edges - int(problem.must.sum()), 0)
    free = np.flatnonzero(~problem.must & problem.able)
    wanted = np.zeros(problem.num_edges, dtype=np.bool_)
    if free.size:
        wanted[free[(turn * seats + np.arange(min(seats, free.size))) % free.size]] = True
    return wanted


def _anyone(problem: RoundProblem) -> BoolArray:
    """The first edge that can finish, where the script names none that is there."""
    return checked(problem, np.arange(problem.num_edges) == int(np.argmax(problem.able)))
