"""Planner `alternating`: the paper's coordinate descent made to work, by moves of single edges scored with exact P4."""

from dataclasses import replace

from hpfl.planning.allocation import finish_plan
from hpfl.planning.moves import alternate
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.set_choice import Incumbent, SetChoice, task_of
from hpfl.planning.set_plans import over_time, quick_bound
from hpfl.rng import Stream

_TIE = 1e-6  # share of the values that the latency weighs at rho = 1, where it breaks ties


def alternating_plan(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """Add, drop and swap edges, each scored with exact bandwidth (P4), until no move improves the objective."""
    best = Incumbent(_with_ties_broken(task_of(problem)))
    alternate(best)
    return finish_plan(problem, over_time(problem, best.best), "alternating", lower_bound=quick_bound(problem)), memory


def _with_ties_broken(task: SetChoice) -> SetChoice:
    """At `rho = 1` a latency weight so small that it only chooses between sets of the same value."""
    if task.latency_weight > 0:
        return task
    longest = Incumbent(task)
    longest.look_at(task.most_valuable())
    weight = _TIE * float(task.values.max()) / max(longest.best.round_latency_s, 1e-300)
    return replace(task, latency_weight=weight or 1.0)
