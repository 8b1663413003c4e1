"""Planner `fastest-v1`: the set that lowers the loss most per second, if hearing is free (docs/fastest-v1.md)."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hpfl.arrays import BoolArray, FloatArray
from hpfl.planning.estimates import Estimate, estimate, intended
from hpfl.planning.hearing import hearing, spent
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.ratio import best_set, seconds_of, typical_seconds
from hpfl.planning.set_choice import SetChoice, task_of
from hpfl.planning.set_plans import plan_for_set
from hpfl.rng import Stream

if TYPE_CHECKING:
    from hpfl.planning.planner_options import FirstFastestOptions


def fastest_v1(
    problem: RoundProblem, memory: Memory, stream: Stream, *, options: "FirstFastestOptions"
) -> tuple[Plan, Memory]:
    """The set of greatest expected loss decrease per second, from sketches of all updates.

    Every edge hears of the new model whose hearing is worth the wait.
    """
    del stream
    found, memory = estimate(problem, memory, unpriced=options.staleness_price == "none")
    scheduled, step = choose(without(task_of(problem), spent(problem, memory)), found)
    plan = plan_for_set(problem, scheduled, "fastest-v1")
    hears, memory = hearing(problem, scheduled, memory, uploads_s=plan.round_latency_s, curvature=found.curvature)
    plan = replace(plan, step_scale=step, broadcast="all", hears=hears, noise_scale=found.noise_scale)
    return plan, intended(problem, memory, scheduled, step)


def choose(task: SetChoice, found: Estimate) -> tuple[BoolArray, float]:
    """How many edges pay best now, then the set of that size that pays most of what is owed per second, and its step.

    A set with updates from older models takes the step that suits it, which may be none; no step goes much further than
    those of late.
    """
    seconds = seconds_of(task)
    sizes, typical_s = typical_seconds(task, seconds)
    gain, steps = found.expected(sizes)
    best = int(np.argmax(per_second(gain, typical_s)))
    task = replace(task, least=int(sizes[best]), most=int(sizes[best]))
    step = float(steps[best])
    scheduled = best_set(task, lambda sets: per_second(found.service(sets, step), seconds(sets)))
    age = 0 if found.unpriced else int(task.problem.staleness[scheduled].max())
    step = min(step, found.step_for(scheduled, age)) if age else step
    return scheduled, found.in_stride(scheduled, step)


def without(task: SetChoice, edges: BoolArray) -> SetChoice:
    """The task of choosing among the other edges, and those that must upload."""
    allowed = task.allowed & (~edges | task.must)
    if not allowed.any():
        return task
    return replace(task, allowed=allowed, most=min(task.most, int(allowed.sum())))


def per_second(gain: FloatArray, seconds: FloatArray) -> FloatArray:
    """The rate of a gain; a loss counts whole, since a rate would make it smaller the longer it takes."""
    return np.where(gain > 0, gain / seconds, gain)
