from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network

from hpfl.planning.alternating import alternating_plan
from hpfl.planning.bandwidth import allocate
from hpfl.planning.joint import joint_plan
from hpfl.planning.moves import descend
from hpfl.planning.set_choice import Incumbent, task_of
from hpfl.rng import Stream

STREAM = Stream(0, "planning")


def small_network(seed, **changes):
    problem = paper_network(seed, K=5, ues=2, **changes)
    return replace(problem, importance=problem.importance * 10.0 ** np.random.default_rng(seed).uniform(-3, 0))


def neighbours(problem, scheduled):
    """All allowed sets that differ by one edge added, dropped or swapped."""
    K = scheduled.size
    for out in range(-1, K):
        for into in range(-1, K):
            moved = scheduled.copy()
            if out >= 0:
                moved[out] = False
            if into >= 0:
                moved[into] = True
            if 1 <= moved.sum() <= problem.most_edges and moved[problem.must].all():
                yield moved


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), rho=st.sampled_from([0.0, 0.3, 0.8]))
def test_no_single_move_improves_the_plan(seed, rho):
    problem = small_network(seed, rho=rho, max_edges=3)
    plan, _ = alternating_plan(problem, {}, STREAM)
    for scheduled in neighbours(problem, plan.scheduled):
        objective = problem.objective(scheduled, allocate(problem, scheduled).round_latency_s)
        assert objective >= plan.objective - 1e-9 * problem.scale(plan.scheduled, plan.round_latency_s)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), rho=st.sampled_from([0.0, 0.3, 0.8, 1.0]))
def test_the_joint_plan_is_never_worse(seed, rho):
    problem = small_network(seed, rho=rho, staleness=np.array([0, 20, 0, 0, 0]))
    joint, alternating = joint_plan(problem, {}, STREAM)[0], alternating_plan(problem, {}, STREAM)[0]
    assert joint.objective <= alternating.objective + 1e-9 * problem.scale(joint.scheduled, joint.round_latency_s)
    assert alternating.lower_bound <= joint.objective


@pytest.mark.parametrize("seed", range(3))
def test_the_joint_plan_is_never_worse_in_large_networks(seed):
    problem = paper_network(seed, K=60, ues=2, max_edges=25)
    problem = replace(problem, importance=0.02 * problem.importance)
    joint, alternating = joint_plan(problem, {}, STREAM)[0], alternating_plan(problem, {}, STREAM)[0]
    assert joint.objective <= alternating.objective


def test_the_descent_makes_no_more_moves_than_it_may():
    problem = replace(paper_network(0, K=12, ues=2, max_edges=12), importance=np.full(12, 1e-6))
    everybody = np.ones(12, dtype=bool)
    best = Incumbent(task_of(problem))
    best.look_at(everybody)
    descend(best, most_moves=3)
    assert best.best.scheduled.sum() == 9
    descend(best, most_moves=100)
    assert best.best.scheduled.sum() == 1


def test_edges_at_the_bound_stay():
    problem = small_network(3, rho=0.0, staleness=np.array([0, 20, 0, 20, 0]))
    plan, _ = alternating_plan(problem, {}, STREAM)
    assert plan.scheduled[[1, 3]].all()


def starved_network(seed, K, ues):
    """Deep fades, so that edges are too slow for early deadlines, and one UE whose joules can never suffice."""
    draws = np.random.default_rng(seed)
    energy_j = np.full(K * ues, 1e9)
    energy_j[draws.integers(K * ues)] = 1e-30
    problem = paper_network(seed, K=K, ues=ues, max_edges=K, ue_energy_j=energy_j)
    return replace(problem, ue_gain=problem.ue_gain * 10.0 ** -draws.uniform(0.0, 5.0, K * ues))


@pytest.mark.parametrize(("K", "ues", "seeds"), [(6, 4, 40), (60, 3, 8)])
def test_an_edge_that_can_never_finish_does_not_stop_the_others(K, ues, seeds):
    for seed in range(seeds):
        problem = starved_network(seed, K, ues)
        plan, _ = alternating_plan(problem, {}, STREAM)
        assert plan.scheduled[problem.able].any()
        assert not plan.scheduled[~problem.able].any()


def test_rounds_that_take_no_time_are_found():
    problem = paper_network(
        3, K=3, ues=2, rho=0.01, ue_bits=np.array([0, 0, 1e6, 1e6, 1e6, 1e6]), edge_bits=np.array([0, 1e6, 1e6])
    )
    plan, _ = alternating_plan(replace(problem, importance=np.full(3, 1e-9)), {}, STREAM)
    assert plan.scheduled.tolist() == [True, False, False]
    assert plan.round_latency_s == 0
