"""A planner that names another coding of the menu in every round, for tests of what happens then."""

from dataclasses import replace

from hpfl.planning.baselines import full
from hpfl.registry import part


@part(codings=True, sketches=True)
def in_turn(problem, memory, stream):
    """Everybody, with the menu's entries in turn."""
    turn = memory.get("turn", 0) % len(problem.codings)
    plan, _ = full(problem.coded(turn), {}, stream)
    return replace(plan, coding=turn), {"turn": turn + 1}
