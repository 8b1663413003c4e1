import json
from dataclasses import replace

import numpy as np
import pytest
from paper_network import paper_network

from hpfl.planning.allocation import finish_plan
from hpfl.planning.bandwidth import InfeasibleError, allocate
from hpfl.planning.baselines import equal_split, random_set
from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.planners import PLANNERS, advice, caution, plan
from hpfl.planning.problem import Plan
from hpfl.planning.set_plans import quick_bound
from hpfl.registry import UnknownNameError
from hpfl.rng import Streams


def drawn(problem, round_index=0, seed=0):
    return random_set(problem, Streams(seed).at("planning", round_index))


def test_the_shipped_planners_have_their_names():
    baselines = {"full", "random", "shpfl", "round-robin", "random-cycle"}
    assert {"joint", "alternating", "paper", "fastest", "scripted"} | baselines <= set(PLANNERS)


def test_an_unknown_planner_is_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="shpfl"):
        plan(paper_network(), "papr")


def test_full_takes_everybody_and_says_it_exceeds_the_cap():
    made = plan(paper_network(), "full")
    assert made.scheduled.all()
    assert made.exceeds_cap
    assert not plan(paper_network(max_edges=20), "full").exceeds_cap


def test_full_and_random_have_the_bandwidth_of_exact_allocation():
    problem = paper_network()
    for name in ("full", "random"):
        made = plan(problem, name)
        assert made.round_latency_s == allocate(problem, made.scheduled).round_latency_s


def test_random_takes_as_many_as_the_cap_allows():
    assert drawn(paper_network(max_edges=7)).sum() == 7
    assert drawn(paper_network(max_edges=50)).all()


def test_random_draws_every_edge_alike():
    problem = paper_network(max_edges=5)
    counts = sum(drawn(problem, t).astype(int) for t in range(2000))
    expected, deviation = 2000 * 5 / 20, np.sqrt(2000 * 0.25 * 0.75)
    assert np.abs(counts - expected).max() < 5 * deviation


def test_random_differs_between_rounds_and_seeds_but_repeats():
    problem = paper_network(max_edges=5)
    assert (drawn(problem, 1) == drawn(problem, 1)).all()
    assert (drawn(problem, 1) != drawn(problem, 2)).any()
    assert (drawn(problem, 1) != drawn(problem, 1, seed=1)).any()


@pytest.mark.parametrize("name", ["random", "shpfl"])
def test_edges_at_the_bound_are_drawn_first_and_beyond_the_cap(name):
    staleness = np.zeros(20, dtype=np.int64)
    staleness[[2, 5, 11]] = [20, 25, 20]
    few = plan(paper_network(staleness=staleness, max_edges=2), name)
    assert np.flatnonzero(few.scheduled).tolist() == [2, 5, 11]
    more = plan(paper_network(staleness=staleness, max_edges=4), name)
    assert more.scheduled.sum() == 4
    assert more.scheduled[[2, 5, 11]].all()


def test_shpfl_gives_every_link_of_its_set_the_same_hz():
    problem = paper_network()
    made = plan(problem, "shpfl")
    hz = np.concatenate(
        (made.ue_bandwidth_hz[made.scheduled[problem.edge_of_ue]], made.edge_bandwidth_hz[made.scheduled])
    )
    assert hz.size == 15 * 11
    np.testing.assert_allclose(hz, 5e6 / hz.size, rtol=1e-9)


def test_shpfl_and_random_draw_the_same_set():
    assert (plan(paper_network(), "shpfl", seed=3).scheduled == plan(paper_network(), "random", seed=3).scheduled).all()


def test_delivered_links_leave_their_share_to_the_others():
    problem = paper_network(K=2, ues=2, ue_bits=np.array([0.0, 1.0, 1.0, 1.0]), edge_bits=np.array([1.0, 0.0]))
    ue_hz, edge_hz = equal_split(problem, np.array([True, True]))
    np.testing.assert_allclose(ue_hz, [0.0, 1.25e6, 1.25e6, 1.25e6])
    np.testing.assert_allclose(edge_hz, [1.25e6, 0.0])


def test_exact_bandwidth_shortens_the_round_of_the_same_set():
    ratios = [
        plan(paper_network(s), "shpfl").round_latency_s / plan(paper_network(s), "random").round_latency_s
        for s in range(30)
    ]
    assert min(ratios) > 1.0
    assert np.mean(ratios) > 1.6


def test_the_quick_bound_is_met_by_an_edge_alone_with_boundless_bandwidth():
    problem = paper_network(K=1, ues=3, bandwidth_hz=1e16)
    assert plan(problem, "random").objective == pytest.approx(quick_bound(problem), rel=1e-6)


def test_an_edge_whose_energy_can_never_suffice_is_left_out():
    energy_j = np.full(200, 1.0)
    energy_j[35] = 1e-30
    for name in PLANNERS.names():
        made = plan(paper_network(ue_energy_j=energy_j, max_edges=20), name)
        assert not made.scheduled[3]
        assert np.isfinite(made.round_latency_s)


def test_where_no_edge_can_finish_the_error_names_a_ue_and_its_joules():
    for name in PLANNERS.names():
        with pytest.raises(InfeasibleError, match="energy_j is 1e-30"):
            plan(paper_network(ue_energy_j=np.full(200, 1e-30)), name)


def test_joint_is_never_worse_than_any_other_planner():
    for seed in range(5):
        problem = paper_network(seed)
        best = plan(problem, "joint")
        for name in set(PLANNERS.names()) - {"full"}:
            made = plan(problem, name)
            assert best.objective <= made.objective + 1e-9 * abs(made.objective)
            assert made.lower_bound <= best.objective


def test_every_plan_is_certified_with_the_tight_bound():
    problem = paper_network(1)
    tight = plan(problem, "joint").lower_bound
    for name in ("alternating", "paper", "random", "shpfl"):
        assert plan(problem, name).lower_bound == pytest.approx(tight, rel=0.02)


def test_too_few_seats_for_the_staleness_bound_are_pointed_out():
    problem = paper_network(max_edges=2, staleness_bound=4, staleness=np.zeros(20, dtype=np.int64))
    assert len(advice(problem)) == 1
    assert "serves 10 of 20 edges" in advice(problem)[0]
    assert advice(replace(problem, max_edges=4)) == ()


def test_a_crowd_at_the_bound_is_pointed_out():
    problem = paper_network(max_edges=4, staleness=np.full(20, 20))
    assert "20 edges are at the staleness bound" in advice(problem)[0]


def test_a_plan_keeps_its_own_bound_where_the_tight_one_cannot_be_found(monkeypatch):
    def unsettled(problem):
        raise ConvergenceError("not today")

    monkeypatch.setattr("hpfl.planning.planners.joint", unsettled)
    problem = paper_network()
    assert plan(problem, "paper").lower_bound == quick_bound(problem)


def test_without_a_memory_the_plan_comes_alone_and_with_one_in_a_pair():
    alone = plan(paper_network(), "fastest")
    made, memory = plan(paper_network(), "fastest", memory={})
    assert isinstance(alone, Plan)
    assert made.round_latency_s == alone.round_latency_s
    assert json.loads(json.dumps(memory)) == memory != {}


@pytest.mark.parametrize("name", PLANNERS.names())
def test_planning_round_after_round_is_what_a_run_does(name):
    ours, theirs = {}, {}
    for t in range(4):
        problem = paper_network(t, K=6, ues=2, staleness=np.zeros(6, dtype=np.int64), max_edges=2)
        made, ours = plan(problem, name, memory=ours, seed=5, round=t, certify=False)
        expected, theirs = PLANNERS.get(name)(problem, theirs, Streams(5).at("planning", t))
        np.testing.assert_array_equal(made.scheduled, expected.scheduled)
        np.testing.assert_array_equal(made.ue_bandwidth_hz, expected.ue_bandwidth_hz)
    assert ours == theirs


def test_the_memory_that_is_handed_in_stays_as_it_is():
    before = {"cycle": ["2", "0", "1"], "last": "0"}
    made, after = plan(paper_network(K=3, ues=2), "round-robin", memory=before)
    assert before == {"cycle": ["2", "0", "1"], "last": "0"}
    assert np.flatnonzero(made.scheduled).tolist() == [1]
    assert after["last"] == "1"


def test_a_plan_without_a_certificate_has_the_bound_of_its_planner():
    problem = paper_network(1)
    assert plan(problem, "random", certify=False).lower_bound == quick_bound(problem)
    assert plan(problem, "random").lower_bound > quick_bound(problem)


def test_a_planner_may_be_a_function():
    def mine(problem, memory, stream):
        return finish_plan(
            problem, allocate(problem, problem.able), "mine", lower_bound=-np.inf, exceeds_cap=True
        ), memory

    made = plan(paper_network(), mine)
    assert made.planner == "mine"
    assert made.scheduled.all()
    assert np.isfinite(made.lower_bound)


def test_a_plan_beyond_the_cap_is_pointed_out():
    problem = paper_network(max_edges=4)
    assert caution(problem, plan(problem, "full")) == ("planner full schedules 20 edges, beyond max_edges = 4",)
    assert caution(problem, plan(problem, "random")) == ()
