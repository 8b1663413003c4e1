"""Planner `fastest`: the greatest expected decrease per second of the whole round (docs/fastest.md).

Where hearing is free and uploads are whole, everybody hears and sketches first, and the set is chosen by what is owed
(`fastest-v1`). Where a broadcast or a sketch costs about as much as an upload, nobody is asked for anything but
uploads: a pool of edges hears, edges of it are called, and what arrives tells how large the pool should be.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hpfl.arrays import BoolArray, FloatArray, IntArray
from hpfl.network.latency import upload_s
from hpfl.planning.fastest_v1 import fastest_v1
from hpfl.planning.learned import Learned, intended, learn
from hpfl.planning.pool import Coded, PoolChoice, best_choice
from hpfl.planning.problem import Memory, Plan, RoundProblem
from hpfl.planning.set_plans import checked, plan_for_set
from hpfl.rng import Stream

if TYPE_CHECKING:
    from hpfl.planning.planner_options import FastestOptions

_TURN, _CALLED, _SOLO, _NOISES, _SIZE = "turn", "called", "solo", "noises", "size"
_CENSUS = "census"
_KEPT = 0.8  # of what earlier rounds say of an edge's seconds: fades pass


def fastest(problem: RoundProblem, memory: Memory, stream: Stream, *, options: "FastestOptions") -> tuple[Plan, Memory]:
    """The numbers of edges that upload and hear, the edges, the step and the coding of the greatest rate."""
    if problem.sketches is not None and problem.downlink is None and problem.codings is None:
        plan, memory = fastest_v1(problem, memory, stream, options=options)
        return replace(plan, planner="fastest"), memory
    able = checked(problem, problem.able)
    learned, memory = learn(memory)
    solo_s, memory = _solo_seconds(problem, memory)
    fresh = _callable(problem)
    order = np.argsort(solo_s + _catch_up_s(problem), kind="stable")
    order = order[able[order]]
    ways = _ways(problem, memory, learned)
    price, size = options.seconds_per_joule, min(int(memory.get(_SIZE, 0)), order.size)
    choice = best_choice(ways, order, learned, seconds_per_joule=price, size=size)
    size = problem.num_edges if memory.get(_CENSUS) else choice.size
    scheduled = checked(problem, _called(problem, memory, order, fresh, size))
    plan = plan_for_set(choice.way.problem, scheduled, "fastest", one_switch=True)
    plan = replace(
        plan,
        step_scale=choice.step,
        broadcast="all",
        hears=_hearers(problem, order, choice),
        noise_scale=learned.noise_scale,
        coding=choice.way.entry,
        step_coding=choice.down.entry,
    )
    return plan, _remembering(problem, memory, plan, choice, learned)


def _callable(problem: RoundProblem) -> BoolArray:
    """Edges whose update is of the current model; where there is none, those of the newest one."""
    newest = problem.staleness[problem.able].min(initial=np.iinfo(np.int64).max)
    return np.asarray(problem.able & (problem.staleness == newest))


def _called(problem: RoundProblem, memory: Memory, order: IntArray, fresh: BoolArray, size: int) -> BoolArray:
    """Those at the staleness bound, and of the others that were longest not called, the quickest first."""
    called = memory.get(_CALLED, {})
    last = np.array([called.get(name, -1) for name in problem.names])
    free = order[fresh[order] & ~problem.must[order]]
    most = min(size, problem.most_edges) - int(problem.must.sum())
    turn = free[np.argsort(last[free], kind="stable")][: max(most, 0)]
    scheduled = problem.must.copy()
    scheduled[turn] = True
    return scheduled


def _hearers(problem: RoundProblem, order: IntArray, choice: PoolChoice) -> BoolArray:
    """The pool, and edges about to reach the staleness bound, which would have to upload something old.

    Where these are many, everybody hears, and uploads next time: a census. Edges that are called again and again fit
    the model to themselves and look content; what the others want is only known when these are heard. By then the
    pool has given what it had to give, and is doubled.
    """
    hears = problem.staleness + 1 >= problem.staleness_bound
    hears[order[: choice.size]] = True
    everybody = problem.downlink is None or int(hears.sum()) > max(choice.size, problem.num_edges // 2)
    return np.ones_like(hears) if everybody else np.asarray(hears)


def _ways(problem: RoundProblem, memory: Memory, learned: Learned) -> list[Coded]:
    """The menu of codings, each with the variance it adds to an edge's update, over the signal."""
    menu = problem.codings
    if menu is None:
        return [Coded(entry=0, problem=problem, noise=0.0, step_noise=0.0)]
    known = memory.get(_NOISES)
    ways = []
    for entry in range(len(menu)):
        links = problem.links.carrying(menu.ue_bits[entry], menu.edge_bits[entry])
        noise = menu.usual[entry] if known is None or learned.signal <= 0 else known[entry] / learned.signal
        posed = replace(problem, links=links, trusted=True)
        ways.append(Coded(entry=entry, problem=posed, noise=noise, step_noise=menu.usual[entry]))
    return ways


def _remembering(problem: RoundProblem, memory: Memory, plan: Plan, choice: PoolChoice, learned: Learned) -> Memory:
    """The memory of a plan: whose turn it was, and what the called edges say of the variances of coding."""
    turn, names = int(memory.get(_TURN, 0)) + 1, problem.names
    called = {**memory.get(_CALLED, {}), **{names[edge]: turn for edge in np.flatnonzero(plan.scheduled).tolist()}}
    census = bool(memory.get(_CENSUS))
    heard = problem.num_edges if plan.hears is None else int(plan.hears.sum())
    kept: dict[str, Any] = {**memory, _TURN: turn, _CALLED: called}
    kept[_CENSUS] = problem.downlink is not None and heard > choice.size and heard == problem.num_edges
    if learned.signal > 0:  # a guess binds nobody
        kept[_SIZE] = min((1 + census) * choice.size, problem.num_edges)
    noise = 0.0
    if problem.codings is not None:
        kept[_NOISES] = problem.codings.noise[plan.scheduled].mean(axis=0).tolist()  # comes with the uploads
        noise = kept[_NOISES][choice.way.entry]
    return intended(kept, step=plan.step_scale, noise=noise, num_edges=problem.num_edges, alone=census)


def _solo_seconds(problem: RoundProblem, memory: Memory) -> tuple[FloatArray, Memory]:
    """About how long each edge's round takes alone, a running mean, since fades pass: an equal part of B per UE."""
    links, B = problem.links, problem.bandwidth_hz
    count = np.maximum(np.bincount(links.edge_of_ue, minlength=links.num_edges), 1)
    share_hz = (B / count)[links.edge_of_ue]
    send_s = upload_s(links.ue_bits, share_hz, links.ue_snr_hz)
    phase_s = np.zeros(links.num_edges)
    np.maximum.at(phase_s, links.edge_of_ue, links.compute_s)
    phase_s += np.bincount(links.edge_of_ue, weights=send_s, minlength=links.num_edges) / count
    now_s = phase_s + upload_s(links.edge_bits, np.asarray(B), links.edge_snr_hz)
    known, pairs = memory.get(_SOLO, {}), zip(problem.names, now_s.tolist(), strict=True)
    mean_s = np.array([_KEPT * known[name] + (1.0 - _KEPT) * s if name in known else s for name, s in pairs])
    return mean_s, {**memory, _SOLO: dict(zip(problem.names, mean_s.tolist(), strict=True))}


def _catch_up_s(problem: RoundProblem) -> FloatArray:
    """Seconds of the air that it takes to tell each edge, and its UEs, what they have missed."""
    if problem.downlink is None:
        return np.zeros(problem.num_edges)
    down, B = problem.downlink, np.asarray(problem.bandwidth_hz)
    return upload_s(down.edge_bits, B, down.edge_snr_hz) + upload_s(down.cell_bits, B, down.cell_snr_hz)
