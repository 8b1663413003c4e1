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
    learned, memory = learn(memory)
    order, memory = _quickest_first(problem, memory)
    held = min(int(memory.get(_SIZE, 0)), order.size)
    ways, price = _ways(problem, memory, learned), options.seconds_per_joule
    choice = best_choice(ways, order, learned, seconds_per_joule=price, size=held)
    scheduled = checked(problem, _called(problem, memory, order, choice.size))
    plan = replace(
        plan_for_set(choice.way.problem, scheduled, "fastest", one_switch=True),
        step_scale=choice.step,
        broadcast="all",
        hears=_hearers(problem, order, choice.size),
        noise_scale=learned.noise_scale,
        coding=choice.way.entry,
        step_coding=choice.down.entry,
    )
    return plan, _remembering(problem, memory, plan, choice)


def _called(problem: RoundProblem, memory: Memory, order: IntArray, size: int) -> BoolArray:
    """Those at the staleness bound, and of the others those that were longest not called, the quickest first.

    Only an edge that heard last has an update of the current model to send. In a census all of these are called.
    """
    size = problem.num_edges if memory.get(_CENSUS) else size
    called = memory.get(_CALLED, {})
    last = np.array([called.get(name, -1) for name in problem.names])
    fresh = problem.staleness == problem.staleness[problem.able].min()
    free = order[fresh[order] & ~problem.must[order]]
    most = min(size, problem.most_edges) - int(problem.must.sum())
    scheduled = problem.must.copy()
    scheduled[free[np.argsort(last[free], kind="stable")][: max(most, 0)]] = True
    return scheduled


def _hearers(problem: RoundProblem, order: IntArray, size: int) -> BoolArray:
    """The pool, and edges about to reach the staleness bound, which would have to upload something old.

    Where these are many, everybody hears, and uploads next time: a census. Edges that are called again and again fit
    the model to themselves and look content; what the others want is only known when these are heard. By then the
    pool has given what it had to give, and is doubled.
    """
    hears = problem.staleness + 1 >= problem.staleness_bound
    hears[order[:size]] = True
    everybody = problem.downlink is None or int(hears.sum()) > max(size, problem.num_edges // 2)
    return np.ones_like(hears) if everybody else np.asarray(hears)


def _ways(problem: RoundProblem, memory: Memory, learned: Learned) -> list[Coded]:
    """The menu of codings, each with the variance it adds to an edge's update, over the signal."""
    menu = problem.codings
    if menu is None:
        return [Coded(entry=0, problem=problem, noise=0.0, step_noise=0.0)]
    known, delays = memory.get(_NOISES), menu.delays or (0.0,) * len(menu)
    ways = []
    for entry, (usual, delay) in enumerate(zip(menu.usual, delays, strict=True)):
        noise = usual if known is None or learned.signal <= 0 else known[entry] / learned.signal
        ways.append(Coded(entry=entry, problem=problem.coded(entry), noise=noise, step_noise=usual, delay=delay))
    return ways


def _remembering(problem: RoundProblem, memory: Memory, plan: Plan, choice: PoolChoice) -> Memory:
    """The memory of a plan: whose turn it was, and what the called edges say of the variances of coding."""
    turn, was_census = int(memory.get(_TURN, 0)) + 1, bool(memory.get(_CENSUS))
    names = [name for name, is_called in zip(problem.names, plan.scheduled, strict=True) if is_called]
    kept: dict[str, Any] = {**memory, _TURN: turn, _CALLED: {**memory.get(_CALLED, {}), **dict.fromkeys(names, turn)}}
    kept[_CENSUS] = _begins_census(problem, plan, choice.size)
    if plan.noise_scale is not None:  # a guess binds nobody
        kept[_SIZE] = min((1 + was_census) * choice.size, problem.num_edges)
    noise = 0.0
    if problem.codings is not None:
        kept[_NOISES] = problem.codings.noise[plan.scheduled].mean(axis=0).tolist()  # comes with the uploads
        noise = kept[_NOISES][plan.coding]
    return intended(kept, step=plan.step_scale, noise=noise, num_edges=problem.num_edges, alone=was_census)


def _begins_census(problem: RoundProblem, plan: Plan, size: int) -> bool:
    """Whether everybody is told, and not only the pool, of a model that some have not followed."""
    told = plan.hears is not None and bool(plan.hears.all())
    return problem.downlink is not None and told and size < problem.num_edges and bool(problem.staleness.any())


def _quickest_first(problem: RoundProblem, memory: Memory) -> tuple[IntArray, Memory]:
    """The edges that can finish, by the seconds that each takes alone and to be told what it has missed."""
    able = checked(problem, problem.able)
    solo_s, memory = _solo_seconds(problem, memory)
    order = np.argsort(solo_s + _catch_up_s(problem), kind="stable")
    return order[able[order]], memory


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
