"""Planner `fastest`: the set that lowers the loss most per second (docs/fastest.md)."""

from dataclasses import replace

import numpy as np

from hpfl.planning.bandwidth import allocate
from hpfl.planning.baselines import quick_bound
from hpfl.planning.estimates import Estimate, estimate, moved
from hpfl.planning.outcome import finish_plan
from hpfl.planning.problem import BoolArray, Memory, Plan, RoundProblem
from hpfl.planning.ratio import best_set, seconds_of
from hpfl.planning.task import Task, task_of
from hpfl.rng import Stream


def fastest(problem: RoundProblem, memory: Memory, stream: Stream) -> tuple[Plan, Memory]:
    """The set of greatest expected loss decrease per second, from sketches of all updates; every edge hears of it."""
    del stream
    found, memory = estimate(problem, memory)
    scheduled, step = choose(task_of(problem), found)
    plan = finish_plan(problem, allocate(problem, scheduled), "fastest", lower_bound=quick_bound(problem))
    plan = replace(plan, step_scale=step, broadcast="all", noise_scale=found.noise_scale)
    return plan, moved(memory, step * found.updates[scheduled].mean(axis=0))


def choose(task: Task, found: Estimate) -> tuple[BoolArray, float]:
    """The set and its step: whole steps where one promises a decrease; else the best shortened step of any set."""
    seconds = seconds_of(task)
    for whole_step in (True, False):
        scheduled = best_set(task, lambda sets: found.gain(sets, whole_step=whole_step)[0] / seconds(sets))
        gain, step = found.gain(scheduled[None], whole_step=whole_step)
        if gain[0] > 0:
            break
    return scheduled, float(step[0])
