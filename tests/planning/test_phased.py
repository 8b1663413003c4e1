"""Bandwidth that is shared anew in each phase, with one switch: exact, certified, and faster than constant Hz."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from paper_network import paper_network
from planning_oracles import LN2, least_hz
from test_bandwidth import everybody, wild_network
from test_joint import best_of_all_sets, network

from hpfl.planning import PlanError, checked_answer, plan
from hpfl.planning.bandwidth import CERTIFIED_GAP, InfeasibleError, allocate
from hpfl.planning.joint import joint
from hpfl.planning.ratio import seconds_of
from hpfl.planning.set_choice import task_of
from hpfl.rng import Streams

seeds = st.integers(0, 10**6)


def phased(seed=0, **changes):
    return paper_network(seed, spectrum="phased", **changes)


def bisected_s(needs_hz, bandwidth_hz, low_s):
    """The least seconds in which links whose needs at a deadline are known fit into the band."""
    high_s = 2.0 * low_s + 1e-9
    while needs_hz(high_s) > bandwidth_hz:
        high_s *= 2.0
    for _ in range(100):
        middle_s = 0.5 * (low_s + high_s)
        low_s, high_s = (middle_s, high_s) if needs_hz(middle_s) > bandwidth_hz else (low_s, middle_s)
    return high_s


def slow_latency_s(problem, scheduled):
    """`G + T` by bisection, link by link."""
    ues, edges = np.flatnonzero(scheduled[problem.edge_of_ue]), np.flatnonzero(scheduled)

    def access_hz(end_s):
        return sum(least_hz(problem.ue_bits[i], end_s - problem.compute_s[i], problem.ue_snr_hz[i]) for i in ues)

    def backhaul_hz(end_s):
        return sum(least_hz(problem.edge_bits[k], end_s, problem.edge_snr_hz[k]) for k in edges)

    first_s = (problem.compute_s + problem.ue_bits * LN2 / problem.ue_snr_hz)[ues].max()
    least_s = (problem.edge_bits * LN2 / problem.edge_snr_hz)[edges].max()
    return bisected_s(access_hz, problem.bandwidth_hz, first_s) + bisected_s(backhaul_hz, problem.bandwidth_hz, least_s)


@pytest.mark.parametrize("seed", range(3))
def test_bisection_of_each_hop_agrees_to_nine_digits(seed):
    problem, scheduled = phased(seed, K=3, ues=2), np.array([True, False, True])
    assert allocate(problem, scheduled).round_latency_s == pytest.approx(slow_latency_s(problem, scheduled), rel=1e-9)


@settings(deadline=None, max_examples=80)
@given(seed=seeds, decades=st.sampled_from([0.0, 5.0, 20.0]))
def test_any_network_is_certified_and_each_phase_within_the_budget(seed, decades):
    problem = replace(wild_network(seed, decades=decades), spectrum="phased")
    found = allocate(problem, everybody(problem))
    assert 0 <= found.latency_gap <= CERTIFIED_GAP
    assert found.certificate == "one switch"
    assert found.ue_bandwidth_hz.sum() <= problem.bandwidth_hz
    assert found.edge_bandwidth_hz.sum() <= problem.bandwidth_hz
    assert found.least_latency_s <= found.round_latency_s == np.nanmax(found.latency_s)


@settings(deadline=None, max_examples=20)
@given(seed=seeds)
def test_all_ues_finish_at_the_switch_and_all_backhauls_at_the_end(seed):
    problem = phased(seed, K=5, ues=4)
    found = allocate(problem, everybody(problem))
    np.testing.assert_allclose(problem.compute_s + found.upload_s, found.switch_s[0], rtol=1e-9)
    np.testing.assert_allclose(found.latency_s, found.round_latency_s, rtol=1e-9)
    assert (found.switch_s == found.edge_phase_s.max()).all()


@settings(deadline=None, max_examples=15)
@given(seed=seeds)
def test_multipliers_of_each_hop_add_up_to_one_and_the_price_is_minus_the_slope(seed):
    problem = phased(seed, K=4, ues=3)
    found = allocate(problem, everybody(problem))
    assert found.edge_weight.sum() == pytest.approx(1.0)
    assert found.ue_weight.sum() == pytest.approx(1.0)
    h = 1e-4 * problem.bandwidth_hz
    less, more = (
        allocate(replace(problem, bandwidth_hz=problem.bandwidth_hz + step), everybody(problem)) for step in (-h, h)
    )
    slope = (less.round_latency_s - more.round_latency_s) / (2 * h)
    assert found.price_s_per_hz == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("size", [1, 5, 20])
def test_phases_shorten_rounds_of_the_paper_s_networks_by_sixty_per_cent(size):
    """Whatever the number of edges."""
    ratios = []
    for seed in range(8):
        problem = phased(seed)
        chosen = Streams(seed).at("set").permutation(20) < size
        constant = allocate(replace(problem, spectrum="fixed"), chosen)
        ratios.append(constant.round_latency_s / allocate(problem, chosen).round_latency_s)
    assert np.mean(ratios) == pytest.approx(1.61, abs=0.04)


def test_edges_whose_ues_have_delivered_need_no_switch():
    problem = phased(1, K=2, ues=3)
    found = allocate(replace(problem, ue_bits=np.zeros(6)), everybody(problem))
    assert (found.switch_s == 0).all()
    np.testing.assert_allclose(found.edge_upload_s, found.round_latency_s)


def test_without_backhauls_both_spectra_are_the_same():
    problem = phased(1, K=3, ues=4, edge_bits=np.zeros(3))
    fixed = replace(problem, spectrum="fixed")
    assert allocate(problem, everybody(problem)).round_latency_s == pytest.approx(
        allocate(fixed, everybody(problem)).round_latency_s, rel=1e-10
    )


@settings(deadline=None, max_examples=20)
@given(seed=seeds, spread=st.floats(0.0, 3.0))
def test_energy_budgets_hold_and_cost_time(seed, spread):
    problem = phased(seed, K=3, ues=2)
    free = allocate(problem, everybody(problem))
    energy_j = problem.ue_power_w * free.upload_s * 10.0 ** (-spread * np.random.default_rng(seed).random(6))
    least_j = np.log(2) * problem.ue_bits * problem.ue_noise_w_per_hz / problem.ue_gain  # at any bandwidth
    assume((energy_j > least_j * (1 + 1e-6)).all())
    tight = allocate(replace(problem, ue_energy_j=energy_j), everybody(problem))
    assert tight.latency_gap <= CERTIFIED_GAP
    assert tight.round_latency_s >= free.round_latency_s * (1 - 1e-9)
    assert (tight.ue_power_w * tight.upload_s <= energy_j * (1 + 1e-9)).all()


def test_a_budget_that_cannot_carry_the_bits_is_refused_by_name():
    problem = phased(5, K=3, ues=2, ue_energy_j=np.array([1.0, 1.0, 1.0, 1e-30, 1.0, 1.0]))
    with pytest.raises(InfeasibleError, match=r"edges\[1\].ues\[1\].energy_j is 1e-30"):
        allocate(problem, everybody(problem))


@pytest.mark.parametrize("kind", ["paper", "faded", "delivered", "computing", "equal", "energy"])
@settings(deadline=None, max_examples=5)
@given(seed=seeds, rho=st.sampled_from([0.0, 0.1, 0.8, 0.999, 1.0]), must=st.booleans())
def test_no_set_with_one_switch_is_better_than_that_of_joint(kind, seed, rho, must):
    problem = replace(network(seed, K=4, kind=kind, rho=rho, must=must), spectrum="phased")
    found = joint(problem)
    objective, latency_s = best_of_all_sets(problem)
    scale = problem.scale(found.allocation.scheduled, found.allocation.round_latency_s)
    assert found.objective <= objective + 1e-9 * scale
    assert found.lower_bound <= objective + 1e-12 * scale
    assert rho < 1 or found.allocation.round_latency_s <= latency_s * (1 + 1e-9)


@pytest.mark.parametrize("importance", [1.0, 0.03, 0.003])
def test_twenty_edges_are_certified(importance):
    problem = phased(2, importance=importance * Streams(2).at("importance").exponential(20))
    made = plan(problem)
    assert made.relative_gap <= 1e-9
    assert made.bound_covers == "one switch"
    alternating = plan(problem, "alternating", certify=False)
    assert made.objective <= alternating.objective + 1e-9 * abs(made.objective)


@settings(deadline=None, max_examples=10)
@given(seed=seeds, size=st.integers(1, 20))
def test_tabulated_seconds_are_within_three_per_cent_below_exact(seed, size):
    problem = phased(seed)
    chosen = Streams(seed).at("set").permutation(20) < size
    table, exact = float(seconds_of(task_of(problem))(chosen[None])[0]), allocate(problem, chosen).round_latency_s
    assert 0.97 * exact <= table <= exact * (1 + 1e-6)


def test_paper_is_the_same_under_phases_and_paper_p4_takes_its_set_with_exact_bandwidth():
    problem = phased(3)
    fixed = plan(replace(problem, spectrum="fixed"), "paper", certify=False)
    printed, exact = (plan(problem, name, certify=False) for name in ("paper", "paper+p4"))
    assert printed.switch_s is None
    assert printed.round_latency_s == fixed.round_latency_s
    np.testing.assert_array_equal(exact.scheduled, printed.scheduled)
    assert exact.round_latency_s == allocate(problem, printed.scheduled).round_latency_s


def test_shpfl_gives_all_links_of_a_phase_the_same():
    made = plan(phased(3), "shpfl", certify=False)
    for hz in (made.ue_bandwidth_hz, made.edge_bandwidth_hz):
        np.testing.assert_allclose(hz[hz > 0], hz.max())
        assert hz.sum() == pytest.approx(5e6)
    assert (made.switch_s[made.scheduled] == np.nanmax(made.edge_phase_s)).all()


def test_phases_add_up_to_the_round():
    for spectrum in ("fixed", "phased"):
        made = plan(paper_network(3, spectrum=spectrum), certify=False)
        assert sum(made.phases_s.values()) == pytest.approx(made.round_latency_s)
        assert all(seconds > 0 for name, seconds in made.phases_s.items() if name != "broadcast")


def test_a_plan_that_shares_anew_what_is_fixed_is_refused():
    problem = phased(3, K=3, ues=2)
    made = plan(problem, "full", certify=False)
    with pytest.raises(PlanError, match="switch_s"):
        checked_answer((made, {}), replace(problem, spectrum="fixed"), "it")


def test_a_plan_whose_phases_overlap_beyond_the_band_is_refused():
    problem = phased(3, K=3, ues=2)
    made = plan(problem, "full", certify=False)
    sooner_s = np.where(made.scheduled, 0.5 * made.switch_s, np.nan)
    times = replace(made.allocation.times, switch_s=sooner_s, latency_s=sooner_s + made.edge_upload_s)
    with pytest.raises(PlanError, match="hands out"):
        checked_answer((replace(made, allocation=replace(made.allocation, times=times)), {}), problem, "it")
