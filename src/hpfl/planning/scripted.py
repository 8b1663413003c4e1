"""Planner `scripted`: replays given schedules, so that a worked example can be run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hpfl.arrays import BoolArray
from hpfl.planning.cycles import in_cycle
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.set_plans import checked, plan_for_set
from hpfl.rng import Stream

if TYPE_CHECKING:
    from hpfl.planning.planner_options import ScriptedOptions

_NEXT = "next"


def scripted(
    problem: RoundProblem, memory: Memory, stream: Stream, *, options: "ScriptedOptions"
) -> tuple[Plan, Memory]:
    """The edges a script names round by round, over and over, with exact bandwidth; without one, edges in turn."""
    del stream
    scheduled, memory = (
        _scripted(problem, memory, options.script)
        if options.script
        else in_cycle(problem, memory, problem.names, seats=problem.max_edges)
    )
    return plan_for_set(problem, checked(problem, scheduled), "scripted", whatever_the_cap=True), memory


def reads_of_script(options: "ScriptedOptions") -> tuple[str, ...]:
    """Which keys matter beside a script: none; the cap where edges come in turn."""
    return () if options.script else ("max_edges",)


def _scripted(problem: RoundProblem, memory: Memory, script: Sequence[Sequence[int]]) -> tuple[BoolArray, Memory]:
    """The edges of this turn that are there, a problem without names having them in order; never nobody."""
    turn = int(memory.get(_NEXT, 0))
    wanted = {str(edge) for edge in script[turn % len(script)]}
    scheduled = problem.must | np.array([name in wanted for name in problem.names], dtype=np.bool_)
    if not scheduled.any():
        scheduled = np.arange(problem.num_edges) == int(np.argmax(problem.able))
    return scheduled, {**memory, _NEXT: turn + 1}
