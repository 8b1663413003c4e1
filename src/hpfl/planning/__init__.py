"""Who uploads this round, and with how many Hz on every link; what a planner of one's own needs is here."""

from hpfl.planning.allocation import finish_plan, realise
from hpfl.planning.bandwidth import InfeasibleError, allocate
from hpfl.planning.checking import PlanError, checked_answer
from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.planners import PLANNERS, plan
from hpfl.planning.problem import APPLIED, Allocation, Memory, Plan, Planner, RoundProblem, Times
from hpfl.planning.rules import ProblemError
from hpfl.planning.set_plans import plan_for_set, plan_with_bandwidth, quick_bound
from hpfl.rng import Stream

__all__ = [
    "APPLIED",
    "PLANNERS",
    "Allocation",
    "ConvergenceError",
    "InfeasibleError",
    "Memory",
    "Plan",
    "PlanError",
    "Planner",
    "ProblemError",
    "RoundProblem",
    "Stream",
    "Times",
    "allocate",
    "checked_answer",
    "finish_plan",
    "plan",
    "plan_for_set",
    "plan_with_bandwidth",
    "quick_bound",
    "realise",
]
