"""Edges that switch at moments of their own, and a bound that no bandwidth over time beats."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network
from planning_oracles import least_hz
from test_bandwidth import everybody, wild_network

from hpfl.planning import checked_answer, plan
from hpfl.planning.any_time import any_time_least_s
from hpfl.planning.bandwidth import allocate
from hpfl.planning.own_switches import with_own_switches
from hpfl.planning.spectrum import most_hz

seeds = st.integers(0, 10**6)


def one_slow_edge(slow_s, *, K=6, ues=3, seed=0):
    """A network in which one edge computes for `slow_s` and the others hardly at all."""
    return paper_network(
        seed, K=K, ues=ues, spectrum="phased", compute_s=np.where(np.arange(K * ues) < ues, slow_s, 0.01)
    )


def switched(problem):
    one = allocate(problem, everybody(problem))
    return one, with_own_switches(problem, one)


@pytest.mark.parametrize(("slow_s", "K"), [(0.5, 6), (1.0, 6), (2.0, 6), (2.0, 20)])
def test_one_slow_edge_among_quick_ones_gains_more_than_two_per_cent(slow_s, K):
    problem = one_slow_edge(slow_s, K=K)
    one, own = switched(problem)
    assert one.round_latency_s > 1.02 * own.round_latency_s
    assert own.certificate == "any bandwidth over time"
    assert own.least_latency_s == own.any_time_least_s <= own.round_latency_s
    assert len(set(own.switch_s)) == 2


def test_a_backhaul_in_a_deep_fade_need_not_wait_for_all_ues():
    problem = paper_network(0, K=6, ues=3, spectrum="phased", compute_s=np.zeros(18))
    faded = replace(problem, edge_gain=problem.edge_gain * np.where(np.arange(6) == 2, 1e-3, 1.0))
    one, own = switched(faded)
    assert one.round_latency_s > 1.05 * own.round_latency_s
    assert own.switch_s[2] == own.switch_s.min() < own.switch_s.max()


def test_edges_that_are_through_before_the_slow_one_has_computed_cost_it_nothing():
    problem = one_slow_edge(3.0)
    alone = allocate(problem, np.arange(6) == 0)
    _, own = switched(problem)
    assert own.round_latency_s == pytest.approx(alone.round_latency_s, rel=1e-5)


@settings(deadline=None, max_examples=25)
@given(seed=seeds, spread=st.floats(0.0, 2.0), delivered=st.booleans())
def test_they_are_never_worse_than_one_switch_and_never_use_more_than_the_band(seed, spread, delivered):
    draw = np.random.default_rng(seed)
    problem = paper_network(
        seed,
        K=4,
        ues=2,
        spectrum="phased",
        compute_s=np.repeat(10.0 ** (spread * draw.standard_normal(4) - 1.0), 2),
        ue_bits=np.where(draw.random(8) < 0.3 * delivered, 0.0, 2.5e6),
    )
    one, own = switched(problem)
    assert own.round_latency_s <= one.round_latency_s
    assert most_hz(problem.links, own) <= problem.bandwidth_hz * (1 + 1e-9)
    assert own.round_latency_s == np.nanmax(own.latency_s)


def test_where_gains_may_change_edges_switch_together():
    problem = replace(one_slow_edge(2.0), steady=False)
    one, own = switched(problem)
    assert own is one


def test_edges_that_are_ready_together_switch_together():
    one, own = switched(paper_network(1, spectrum="phased"))
    assert own is one


def test_the_planners_make_use_of_it_and_the_check_of_every_run_follows():
    problem = one_slow_edge(2.0)
    one = allocate(problem, everybody(problem)).round_latency_s
    made = plan(problem, "full")
    assert made.round_latency_s < 0.98 * one
    assert checked_answer((made, {}), problem, "full")[0] is made
    assert made.any_time_least_s <= made.round_latency_s
    assert sum(made.phases_s.values()) == pytest.approx(made.round_latency_s)


def area_hz_s(problem, k, latency_s):
    """Hz s that edge k needs at least to be through at a time, by trying all switches."""
    ues = np.flatnonzero(problem.edge_of_ue == k)
    switches_s = np.linspace(0.0, latency_s, 400)[1:-1]

    def area(switch_s):
        windows = [(problem.ue_bits[i], switch_s - problem.compute_s[i], problem.ue_snr_hz[i]) for i in ues]
        windows.append((problem.edge_bits[k], latency_s - switch_s, problem.edge_snr_hz[k]))
        return sum(max(seconds, 1e-12) * least_hz(bits, max(seconds, 1e-12), snr) for bits, seconds, snr in windows)

    return min(area(switch_s) for switch_s in switches_s)


def test_at_the_bound_the_edges_areas_fill_the_band():
    problem = paper_network(1, K=2, ues=2, spectrum="phased")
    latency_s = allocate(problem, everybody(problem)).round_latency_s
    bound_s = any_time_least_s(problem, everybody(problem), latency_s)
    need = sum(area_hz_s(problem, k, bound_s) for k in range(2))
    assert need == pytest.approx(problem.bandwidth_hz * (bound_s - problem.compute_s.min()), rel=1e-3)


@settings(deadline=None, max_examples=40)
@given(seed=seeds, decades=st.sampled_from([0.0, 5.0, 20.0]))
def test_no_allocation_of_any_kind_is_below_the_bound(seed, decades):
    problem = wild_network(seed, decades=decades)
    fixed = allocate(problem, everybody(problem))
    one, own = switched(replace(problem, spectrum="phased"))
    bound_s = any_time_least_s(problem, everybody(problem), max(fixed.round_latency_s, one.round_latency_s))
    assert bound_s <= min(fixed.round_latency_s, one.round_latency_s, own.round_latency_s) * (1 + 1e-6)


def test_without_computing_one_switch_is_within_a_per_cent_of_any_bandwidth_over_time():
    for seed in range(6):
        problem = paper_network(seed, K=6, ues=3, spectrum="phased", compute_s=np.zeros(18))
        one = allocate(problem, everybody(problem)).round_latency_s
        assert one <= 1.01 * any_time_least_s(problem, everybody(problem), one)


def test_one_link_alone_needs_what_the_bound_says():
    problem = paper_network(1, K=1, ues=1, spectrum="phased", edge_bits=np.zeros(1), compute_s=np.zeros(1))
    latency_s = allocate(problem, everybody(problem)).round_latency_s
    assert any_time_least_s(problem, everybody(problem), latency_s) == pytest.approx(latency_s, rel=1e-6)
