"""The first fastest planner: what it makes of speed, noise, curvature, differences between edges, and age."""

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hpfl.planning.bandwidth import allocate
from hpfl.planning.estimates import estimate, moved
from hpfl.planning.fastest_v1 import choose
from hpfl.planning.planners import PLANNERS
from hpfl.planning.ratio import seconds_of, typical_seconds
from hpfl.planning.rules import LARGEST
from hpfl.planning.set_choice import task_of
from hpfl.rng import Streams

sys.path.insert(0, str(Path(__file__).parent))
from paper_network import paper_network

WIDTH = 64


def normal(purpose, *shape):
    return Streams(11).at(purpose).normal(int(np.prod(shape))).reshape(shape)


def fresh(seed=0, *, K=20, **changes):
    """A round in which every edge holds the current model."""
    return paper_network(seed, K=K, staleness=np.zeros(K, dtype=np.int64), **changes)


def planned(problem, memory=None):
    return PLANNERS.get("fastest-v1")(problem, memory or {}, Streams(0).at("planning"))


def quadratic(curvature, noise, *, rounds=30, K=20, skew=None, seed=0):
    """Train `F_k(w) = curvature/2 |w - c_k|^2` (beta = 1) with the planner; its plans, the losses after them."""
    centres = noise * normal("centres", K, WIDTH) / np.sqrt(WIDTH) if skew is None else skew
    w, memory, plans, losses = 3.0 * normal("start", WIDTH) / np.sqrt(WIDTH), {}, [], []
    for t in range(rounds):
        updates = curvature * (w - centres)
        plan, memory = planned(fresh(seed + t, K=K, sketches=updates), memory)
        w = w - plan.step_scale * updates[plan.scheduled].mean(axis=0)
        plans.append(plan)
        losses.append(0.5 * curvature * float(((w - centres) ** 2).sum(axis=1).mean()))
    floor = 0.5 * curvature * float(((centres - centres.mean(axis=0)) ** 2).sum(axis=1).mean())
    return plans, np.array(losses) - floor


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_equal_updates_leave_the_fastest_single_edge(seed):
    problem = fresh(seed, sketches=np.tile(normal("one", WIDTH), (20, 1)))
    plan, _ = planned(problem)
    alone_s = [allocate(problem, np.arange(20) == edge).round_latency_s for edge in range(20)]
    assert plan.scheduled.sum() == 1
    assert plan.round_latency_s == pytest.approx(min(alone_s), rel=0.01)
    assert plan.step_scale == 1.0
    assert plan.noise_scale == pytest.approx(0.0, abs=1e-12)


def test_noise_with_curvature_takes_more_edges_than_either_alone():
    calm, _ = quadratic(0.3, 0.0)
    noisy_flat, _ = quadratic(0.001, 6.0)
    noisy_curved, _ = quadratic(1.0, 6.0)
    sizes = [np.mean([plan.scheduled.sum() for plan in plans[5:]]) for plans in (calm, noisy_flat, noisy_curved)]
    assert sizes[0] == sizes[1] == 1.0
    assert sizes[2] > 2.0


def test_more_edges_are_worth_a_round_as_the_signal_fades():
    plans, _ = quadratic(1.0, 3.0, rounds=40)
    sizes = [int(plan.scheduled.sum()) for plan in plans]
    assert np.mean(sizes[:5]) < np.mean(sizes[-10:])
    assert plans[-1].noise_scale > plans[1].noise_scale


def test_well_below_the_edge_of_stability_whole_steps_of_one_edge_learn_despite_noise():
    plans, losses = quadratic(0.3, 3.0, rounds=40)
    assert {(plan.step_scale, int(plan.scheduled.sum())) for plan in plans} == {(1.0, 1)}
    assert losses[-10:].mean() < 0.15 * 0.5 * 0.3 * 9.0


def test_the_noise_scale_is_noise_over_signal():
    signal, noise = normal("signal", WIDTH), normal("noise", 20, WIDTH)
    noise -= noise.mean(axis=0)
    plan, _ = planned(fresh(sketches=signal + noise))
    assert plan.noise_scale == pytest.approx((noise**2).sum() / 19 / (signal @ signal))


def test_curvature_is_learned_from_a_known_step():
    centres, w = normal("c", 20, WIDTH), normal("w", WIDTH)
    for curvature in (0.05, 0.7, 3.0):
        _, memory = estimate(fresh(sketches=curvature * (w - centres)), {})
        step = 0.1 * normal("step", WIDTH)
        found, _ = estimate(fresh(1, sketches=curvature * (w - step - centres)), moved(memory, step, 1.0))
        assert found.curvature == pytest.approx(curvature)


@pytest.mark.parametrize("curvature", [0.1, 1.0, 2.5, 6.0, 20.0])
@pytest.mark.parametrize("noise", [0.0, 1.0, 5.0])
def test_a_quadratic_is_learned_though_the_outer_step_is_far_too_long(curvature, noise):
    _, losses = quadratic(curvature, noise, rounds=60)
    start = 0.5 * curvature * 9.0
    assert losses[-20:].mean() < 0.1 * start + 0.1 * curvature * noise**2


def test_without_noise_a_step_three_hundred_times_too_long_is_shortened_enough():
    _, losses = quadratic(300.0, 0.0, rounds=60)
    assert losses[-20:].mean() < 0.1 * 0.5 * 300.0 * 9.0


def test_edges_that_differ_take_turns_instead_of_the_loudest_winning_always():
    groups = np.repeat(np.eye(4), 5, axis=0) @ normal("groups", 4, WIDTH)
    groups[:5] *= 1.5  # the loudest
    plans, _ = quadratic(0.05, 0.0, skew=groups, rounds=40)
    served = np.sum([plan.scheduled for plan in plans], axis=0).reshape(4, 5).sum(axis=1)
    assert (served >= 5).all()


def test_a_slow_edge_is_called_less_than_the_others():
    problem = fresh(sketches=normal("one", WIDTH) + 0.5 * normal("each", 20, WIDTH))
    bits = problem.ue_bits.copy()
    bits[problem.edge_of_ue == 7] *= 10.0
    memory, calls = {}, np.zeros(20)
    for t in range(60):
        each = normal("one", WIDTH) + 0.5 * normal("each", 20, WIDTH)
        plan, memory = planned(fresh(t, sketches=each, ue_bits=bits), memory)
        calls += plan.scheduled
    assert calls[7] < 0.5 * calls.mean()


def test_without_sketches_it_goes_by_importance_and_speed():
    importance = np.ones(20)
    importance[3] = 1e4
    plan, memory = planned(fresh(importance=importance))
    assert plan.scheduled.tolist() == [edge == 3 for edge in range(20)]
    plan, _ = planned(fresh(1, importance=importance), json.loads(json.dumps(memory)))
    assert plan.scheduled.sum() >= 1


def test_the_cap_holds_and_edges_at_the_bound_upload():
    staleness = np.zeros(20, dtype=np.int64)
    staleness[[2, 5]] = 20
    problem = paper_network(3, staleness=staleness, max_edges=4, sketches=10 * normal("wild", 20, WIDTH))
    plan, _ = planned(problem)
    assert plan.scheduled[[2, 5]].all()
    assert plan.scheduled.sum() <= 4


def test_updates_that_point_back_are_dropped_by_a_step_of_nothing():
    """All edges at the bound hold gradients of a model long left, opposite to what is needed now."""
    updates = np.tile(normal("old", WIDTH), (20, 1))
    _, memory = estimate(fresh(sketches=updates), {})
    memory = moved(memory, updates[0], 3.0) | {"bend": 1.0, "reach": 1.0}
    stale = paper_network(1, staleness=np.full(20, 20), sketches=updates)
    plan, _ = planned(stale, memory)
    assert plan.scheduled.all()
    assert plan.step_scale == 0.0


def test_a_rising_loss_lowers_the_step_and_a_falling_one_restores_it():
    uphill = {"gradient": [1.0] * WIDTH, "step": [-1.0] * WIDTH, "path": [0.0] * WIDTH, "debt": [0.0] * WIDTH}
    ones = np.ones((20, WIDTH))
    found, memory = estimate(fresh(sketches=ones), uphill)
    assert found.ceiling == 0.5
    for t in range(20):
        found, memory = estimate(fresh(t, sketches=ones), moved(memory, ones[0], 1.0))
    assert found.ceiling == 1.0


@settings(deadline=None)
@given(fallen=st.floats(1e-3, 1e6), share=st.floats(0.0, 1.0))
def test_a_rise_is_an_alarm_beyond_a_fiftieth_of_all_the_loss_has_fallen(fallen, share):
    """Over the step `-x` along a slope of 1 the loss rises by `x`."""
    assume(abs(share - 0.02) > 1e-6)
    steps = {"gradient": [1.0, 1.0], "step": [-0.5 * share * fallen] * 2, "path": [0.0] * 2, "debt": [0.0] * 2}
    found, memory = estimate(fresh(sketches=np.ones((20, 2))), {**steps, "loss": -fallen, "least": -fallen})
    assert memory["loss"] == pytest.approx((share - 1.0) * fallen, abs=1e-9 * fallen)
    assert memory["least"] == -fallen
    assert found.ceiling == (0.5 if share > 0.02 else 1.0)


@settings(deadline=None)
@given(times=st.floats(0.01, 1e12))
def test_a_step_goes_as_far_as_usual_where_it_would_go_more_than_ten_times_as_far(times):
    assume(abs(times - 10.0) > 1e-6)
    ones, memory = np.ones((20, WIDTH)), {}
    for t in range(3):
        plan, memory = planned(fresh(t, sketches=ones), memory)
        assert plan.step_scale == 1.0
    found, _ = estimate(fresh(4, sketches=times * ones), memory)
    scale = found.in_stride(np.arange(20) < 2, 1.0)
    assert scale == (1.0 if times < 10 else pytest.approx(1.0 / times))
    assert found.in_stride(np.arange(20) < 2, 0.0) == 0.0


def watched(changes, ceiling=1.0, curvature=0.0):
    """Rounds in which the loss changes by so much, with that curvature; the ceilings and the memory after each."""
    memory = {"gradient": [1.0, 0.0], "path": [0.0] * 2, "debt": [0.0] * 2, "ceiling": ceiling}
    past = []
    for t, change in enumerate(changes):
        memory |= {"step": [-change, 0.0], "bend": curvature, "reach": 1.0}
        _, memory = estimate(fresh(t, sketches=np.tile([1.0, 0.0], (20, 1))), memory)
        past.append((memory["ceiling"], memory["least"]))
    return past


def test_small_rises_add_up_to_an_alarm_and_a_fall_is_none():
    falls = [-50.0, -50.0]
    ceilings, least = zip(*watched([*falls, *[-0.0] * 30, 0.9, 0.9, 0.9, 0.9]), strict=True)
    assert ceilings[-4:] == (1.0, 1.0, 0.5, 0.25)
    assert (least[0], least[1], least[-1]) == (-50.0, -100.0, -100.0)
    ceilings, _ = zip(*watched([*falls, *[-0.0] * 30, 9.0, -1.0]), strict=True)
    assert ceilings[-2:] == (0.5, 0.525)


@settings(deadline=None)
@given(ceiling=st.floats(1e-6, 1.0), curvature=st.floats(0.0, 1e12))
def test_an_alarm_never_raises_the_ceiling_nor_loses_it(ceiling, curvature):
    [(lower, _)] = watched([1.0], ceiling, curvature)
    assert 0 < lower <= ceiling
    assert lower >= min(ceiling, 1e-4)
    assert lower <= max(0.5 * ceiling, 1 / 64)


@pytest.mark.parametrize("size", [0.0, 1e-140, LARGEST])
def test_a_sketch_of_any_size_gives_a_step_without_a_warning(size):
    found, _ = estimate(fresh(sketches=size * np.ones((20, WIDTH))), {})
    _, steps = found.expected(np.array([1.0, 20.0]))
    assert (steps == (1.0 if size else 0.0)).all()


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 6))
def test_tabulated_seconds_are_close_to_exact_ones_and_never_above(seed, size):
    problem = fresh(seed)
    chosen = np.zeros(20, dtype=np.bool_)
    chosen[Streams(seed).at("set").permutation(20)[:size]] = True
    table = float(seconds_of(task_of(problem))(chosen[None])[0])
    exact = allocate(problem, chosen).round_latency_s
    assert table <= exact * (1 + 1e-6)
    assert table >= exact * 0.97


def test_larger_sets_take_longer_on_average():
    task = task_of(fresh())
    sizes, seconds = typical_seconds(task, seconds_of(task))
    assert sizes[0] == 1
    assert sizes[-1] == 15
    assert (np.diff(seconds) > 0).all()


def test_an_overhead_that_dwarfs_the_uploads_makes_larger_sets_pay():
    updates = normal("one", WIDTH) + 2.0 * normal("each", 20, WIDTH)
    problem = fresh(sketches=updates)
    found, _ = estimate(problem, {})
    found = replace(found, curvature=0.5)
    lean, _ = choose(task_of(problem), found)
    laden, _ = choose(task_of(replace(problem, overhead_s=1e4)), found)
    assert laden.sum() > lean.sum()


def test_memory_of_an_edge_survives_its_absence():
    whole = fresh(sketches=normal("u", 20, WIDTH))
    _, memory = planned(whole)
    names = tuple(str(edge) for edge in range(20) if edge != 4)
    there = fresh(1, K=19, sketches=normal("u", 20, WIDTH)[1:], edge_ids=names)
    plan, memory = planned(there, memory)
    assert set(memory["edges"]) == set(names)
    assert plan.scheduled.size == 19


def renewed(renewal_s, *, rounds=30, told=True, **changes):
    """Rounds with edges that need `renewal_s` to compute; who was called, and who heard after each."""
    memory, staleness, called, heard = {}, np.zeros(20, dtype=np.int64), [], []
    for t in range(rounds):
        sketches = normal("one", WIDTH) + 0.3 * normal("each", 20, WIDTH)
        problem = fresh(t, sketches=sketches, renewal_s=renewal_s, overhead_s=0.02, **changes)
        plan, memory = planned(replace(problem, staleness=staleness), json.loads(json.dumps(memory)))
        hears = plan.hears if told else np.ones(20, dtype=np.bool_)
        staleness = np.where(hears, 0, staleness + 1)
        called.append(plan.scheduled)
        heard.append(hears)
    return np.array(called), np.array(heard)


def test_edges_that_compute_alike_all_hear_of_every_model():
    _, heard = renewed(np.linspace(0.01, 0.02, 20))
    assert heard.all()


def test_all_hear_when_all_are_slow_together():
    _, heard = renewed(np.full(20, 30.0))
    assert heard.all()


SLOW_S = np.where(np.arange(20) == 7, 2.0, 0.02)


def test_one_slow_edge_is_waited_for_now_and_then_and_never_reaches_the_bound():
    _, heard = renewed(SLOW_S, rounds=60)
    assert heard[:, np.arange(20) != 7].all()
    assert 2 <= heard[:, 7].sum() < 0.2 * len(heard)
    assert np.diff(np.flatnonzero(heard[:, 7])).max() <= 20


def test_an_edge_that_uploaded_is_not_called_before_it_has_heard():
    called, heard = renewed(np.where(np.arange(20) < 12, 2.0, 0.02), rounds=80)
    assert not heard.all()
    assert called[:, :12].any()
    for edge in range(12):
        for first, second in pairwise(np.flatnonzero(called[:, edge])):
            assert heard[first:second, edge].any()


def test_an_edge_that_heard_against_the_plan_may_be_called_again():
    called, _ = renewed(SLOW_S, rounds=60, told=False)
    assert called[:, 7].sum() >= 2


def test_without_a_price_an_old_update_counts_as_new():
    updates = np.tile(normal("old", WIDTH), (20, 1))
    _, memory = estimate(fresh(sketches=updates), {}, unpriced=True)
    memory = moved(memory, updates[0], 3.0) | {"bend": 1.0, "reach": 1.0}
    stale = paper_network(1, staleness=np.full(20, 20), sketches=updates)
    plan, _ = PLANNERS.get("fastest-v1", staleness_price="none")(stale, memory, Streams(0).at("planning"))
    assert plan.step_scale > 0.0
    found, _ = estimate(stale, memory, unpriced=True)
    assert found.gradient == pytest.approx(updates[0])
