"""Planners `round-robin` and `random-cycle`: edges in turn, one a round, with exact bandwidth; everybody hears."""

from collections.abc import Sequence
from dataclasses import replace

from hpfl.arrays import BoolArray
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.set_plans import checked, plan_for_set
from hpfl.rng import Stream

_CYCLE, _LAST = "cycle", "last"


def round_robin(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """One edge in turn, in the order of their numbers, with exact bandwidth; everybody hears of the new model."""
    del stream
    return _in_turn(problem, in_cycle(problem, memory, problem.names), "round-robin")


def random_cycle(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """One edge in turn, in a random order drawn once, with exact bandwidth; everybody hears of the new model."""
    names = problem.names
    drawn = [names[edge] for edge in stream.permutation(len(names)).tolist()]
    return _in_turn(problem, in_cycle(problem, memory, drawn), "random-cycle")


def in_cycle(
    problem: RoundProblem, memory: Memory, order: Sequence[str], *, seats: int = 1
) -> tuple[BoolArray, Memory]:
    """The `seats` edges whose turn it is, and the memory of whose it was; edges at the staleness bound go first.

    The memory keeps the whole cycle by name. An edge that is away or cannot finish is passed over until its next turn;
    one that was never seen joins at the end, in the `order` given.
    """
    cycle = list(memory.get(_CYCLE, ()))
    known = set(cycle)
    cycle += [name for name in order if name not in known]
    start = cycle.index(memory[_LAST]) + 1 if _LAST in memory else 0
    number = {name: edge for edge, name in enumerate(problem.names)}
    ahead = (number[name] for name in cycle[start:] + cycle[:start] if name in number)
    free = [edge for edge in ahead if problem.able[edge] and not problem.must[edge]]
    called = free[: max(seats - int(problem.must.sum()), 0)]
    scheduled = problem.must.copy()
    scheduled[called] = True
    last = {_LAST: problem.names[called[-1]]} if called else {}
    return scheduled, {**memory, _CYCLE: cycle, **last}


def _in_turn(problem: RoundProblem, chosen: tuple[BoolArray, Memory], planner: str) -> tuple[Plan, Memory]:
    scheduled, memory = chosen
    return replace(plan_for_set(problem, checked(problem, scheduled), planner), broadcast="all"), memory
