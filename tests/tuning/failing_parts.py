"""A planner that cannot plan, and is found out when it is asked to."""

from hpfl.planning import PlanError


def failing(problem, memory, stream):
    raise PlanError("this planner never plans")
