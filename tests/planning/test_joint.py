from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network
from planning_oracles import allowed_sets

from hpfl.planning.bandwidth import InfeasibleError, allocate
from hpfl.planning.joint import joint, joint_plan
from hpfl.planning.lines import tabulate
from hpfl.planning.link_curve import LN2
from hpfl.planning.load import load_of
from hpfl.planning.search import solve
from hpfl.planning.set_choice import SetChoice, task_of
from hpfl.planning.solo import solo_slack_s
from hpfl.rng import Stream

STREAM = Stream(0, "planning")
seeds = st.integers(0, 10**6)


def network(seed, *, K, kind, rho=0.8, must=False):
    """Small networks of several kinds, with importances from negligible to overwhelming."""
    draw = np.random.default_rng(seed)
    ues = int(draw.integers(1, 4))
    N = K * ues
    changes = {
        "paper": {},
        "faded": {"ue_gain": 10.0 ** draw.uniform(-20, -6, N), "edge_gain": 10.0 ** draw.uniform(-20, -8, K)},
        "delivered": {"ue_bits": draw.choice([0.0, 1e6], N), "edge_bits": draw.choice([0.0, 1e6], K)},
        "computing": {"compute_s": 10.0 ** draw.uniform(-3, 2, N)},
        "equal": {"ue_gain": np.full(N, 1e-7), "edge_gain": np.full(K, 1e-9), "compute_s": np.zeros(N)},
        "energy": {"ue_energy_j": _least_energy_j(seed, K, ues) * (1 + 10.0 ** draw.uniform(-2, 6, N))},
    }[kind]
    importance = 10.0 ** draw.uniform(-3, 1) * draw.choice([0.0, 1.0, draw.random()], K)
    staleness = np.where(draw.random(K) < 0.3, 20, 0) if must else np.zeros(K, dtype=np.int64)
    return paper_network(
        seed, K=K, ues=ues, rho=rho, importance=importance, staleness=staleness, max_edges=int(draw.integers(1, K + 1)),
        **changes,
    )  # fmt: skip


def _least_energy_j(seed, K, ues):
    problem = paper_network(seed, K=K, ues=ues)
    return problem.ue_bits * LN2 * problem.ue_noise_w_per_hz / problem.ue_gain


def best_of_all_sets(problem):
    """Objective and latency of the best allowed set; at equal importance the fastest."""
    scores = []
    for scheduled in allowed_sets(problem):
        latency_s = allocate(problem, scheduled).round_latency_s
        scores.append((problem.objective(scheduled, latency_s), latency_s))
    return min(scores)


@pytest.mark.parametrize("kind", ["paper", "faded", "delivered", "computing", "equal", "energy"])
@settings(deadline=None, max_examples=12)
@given(seed=seeds, rho=st.sampled_from([0.0, 0.1, 0.8, 0.999]), must=st.booleans())
def test_no_set_is_better(kind, seed, rho, must):
    problem = network(seed, K=4, kind=kind, rho=rho, must=must)
    found = joint(problem)
    objective, _ = best_of_all_sets(problem)
    scale = problem.scale(found.allocation.scheduled, found.allocation.round_latency_s)
    assert found.objective <= objective + 1e-9 * scale
    assert found.lower_bound <= objective + 1e-12 * scale


@pytest.mark.parametrize("seed", range(3))
def test_no_set_of_ten_edges_is_better(seed):
    problem = paper_network(seed, K=10, ues=2, importance=0.03 * np.random.default_rng(seed).exponential(size=10))
    plan, _ = joint_plan(problem, {}, STREAM)
    objective, _ = best_of_all_sets(problem)
    assert plan.objective == pytest.approx(objective, rel=1e-9)
    assert plan.lower_bound <= objective
    assert plan.relative_gap <= 1e-9


@settings(deadline=None, max_examples=25)
@given(seed=seeds, ties=st.booleans())
def test_with_all_weight_on_importance_latency_breaks_ties(seed, ties):
    problem = network(seed, K=4, kind="paper", rho=1.0)
    importance = np.random.default_rng(seed).choice([0.0, 1.0, 2.0], 4) if ties else problem.importance
    problem = replace(problem, importance=importance)
    found = joint(problem)
    objective, latency_s = best_of_all_sets(problem)
    assert found.objective == pytest.approx(objective)
    assert found.allocation.round_latency_s <= latency_s * (1 + 1e-9)  # less, where rounding parts two sets that tie


@pytest.mark.parametrize("seed", range(5))
def test_with_no_weight_on_importance_the_fastest_edge_goes_alone(seed):
    problem = paper_network(seed, K=6, ues=3, rho=0.0)
    found = joint(problem)
    alone = [allocate(problem, np.arange(6) == k).round_latency_s for k in range(6)]
    assert found.allocation.scheduled.sum() == 1
    assert found.allocation.round_latency_s == pytest.approx(min(alone))


def test_edges_at_the_bound_are_scheduled_even_beyond_the_cap():
    problem = paper_network(1, K=6, ues=2, max_edges=2, staleness=np.array([20, 0, 21, 0, 20, 3]))
    plan, _ = joint_plan(problem, {}, STREAM)
    assert (plan.scheduled == problem.must).all()
    assert not plan.exceeds_cap


def test_identical_edges_do_not_slow_the_search():
    K = 20
    problem = paper_network(
        0,
        K=K,
        ues=2,
        ue_gain=np.full(2 * K, 1e-7),
        edge_gain=np.full(K, 1e-9),
        compute_s=np.zeros(2 * K),
        importance=np.full(K, 0.012),
        max_edges=K,
    )
    found = joint(problem)
    by_size = [
        problem.objective(np.arange(K) < n, allocate(problem, np.arange(K) < n).round_latency_s)
        for n in range(1, K + 1)
    ]
    assert found.objective == pytest.approx(min(by_size), rel=1e-9)


@pytest.mark.parametrize("importance", [0.3, 0.03, 0.01])
def test_large_networks_are_certified_to_one_percent(importance):
    problem = paper_network(2, K=120, ues=4, max_edges=40)
    plan, _ = joint_plan(replace(problem, importance=importance * problem.importance), {}, STREAM)
    assert 0 <= plan.relative_gap <= 0.01
    assert plan.scheduled.sum() <= 40


def test_edges_nobody_can_serve_are_left_out():
    energy_j = np.array([1.0, 1.0, 1e-30, 1.0, 1.0, 1.0])
    problem = paper_network(3, K=3, ues=2, ue_energy_j=energy_j, max_edges=3)
    plan, _ = joint_plan(problem, {}, STREAM)
    assert plan.scheduled.tolist() == [True, False, True]


def test_an_edge_that_must_and_cannot_is_refused():
    energy_j = np.array([1.0, 1.0, 1e-30, 1.0, 1.0, 1.0])
    problem = paper_network(3, K=3, ues=2, ue_energy_j=energy_j, staleness=np.array([0, 20, 0]))
    with pytest.raises(InfeasibleError, match=r"edges\[1\].ues\[0\].energy_j"):
        joint(problem)


def test_an_exact_number_of_edges_with_values_of_either_sign():
    problem = paper_network(4, K=6, ues=2)
    values = np.array([-1.0, 0.3, -0.2, 0.1, -0.5, 0.0])
    task = replace(task_of(problem), values=values, latency_weight=0.3, least=3, most=3)
    found = solve(task)
    sets = [s for s in allowed_sets(replace(problem, max_edges=3)) if s.sum() == 3]
    best = min(task.objective(s, allocate(problem, s).round_latency_s) for s in sets)
    assert found.allocation.scheduled.sum() == 3
    assert found.objective == pytest.approx(best, rel=1e-9)
    assert found.lower_bound <= best


@settings(deadline=None, max_examples=25)
@given(seed=seeds, kind=st.sampled_from(["paper", "faded", "computing", "energy"]))
def test_lines_never_promise_too_long_a_round(seed, kind):
    problem = network(seed, K=5, kind=kind)
    task = task_of(problem)
    load = load_of(problem, task.allowed)
    sets = np.random.default_rng(seed).random((4, 5)) < 0.5
    sets = sets[(sets & task.allowed).any(axis=1)] & task.allowed
    exact_s = np.array([allocate(problem, scheduled).round_latency_s for scheduled in sets])
    marks_s = np.geomspace(0.1, 10.0, 9) * (exact_s.max() if exact_s.size else 1.0)
    lines = tabulate(load, task.allowed, (marks_s[:-1], marks_s[1:]), bandwidth_hz=problem.bandwidth_hz)
    assert (lines.least_latency_s(sets, problem.bandwidth_hz) <= exact_s * (1 + 1e-9)).all()


@settings(deadline=None, max_examples=25)
@given(seed=seeds, kind=st.sampled_from(["paper", "faded", "computing"]))
def test_lone_edges_finish_between_their_bounds(seed, kind):
    problem = network(seed, K=4, kind=kind)
    load = load_of(problem, np.ones(4, dtype=bool))
    low, high = solo_slack_s(load, problem.bandwidth_hz)
    alone_s = np.array([allocate(problem, np.arange(4) == k).round_latency_s for k in range(4)])
    assert (load.least_s + low <= alone_s * (1 + 1e-9)).all()
    assert (alone_s <= (load.least_s + high) * (1 + 1e-9)).all()


def test_the_same_problem_gets_the_same_plan():
    problem = paper_network(7, importance=0.03 * paper_network(7).importance)
    first, again = (joint_plan(problem, {}, STREAM)[0] for _ in range(2))
    assert first.objective == again.objective
    np.testing.assert_array_equal(first.ue_bandwidth_hz, again.ue_bandwidth_hz)


def test_a_task_minimises_what_it_says():
    problem = paper_network(1, K=3, ues=2)
    task = task_of(problem)
    assert isinstance(task, SetChoice)
    scheduled = np.array([True, False, True])
    assert task.objective(scheduled, 2.0) == pytest.approx(problem.objective(scheduled, 2.0))
