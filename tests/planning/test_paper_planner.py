import numpy as np
import pytest
from paper_network import paper_network
from scipy.optimize import brentq
from scipy.special import lambertw

from hpfl.planning.allocation import realise
from hpfl.planning.bandwidth import InfeasibleError, allocate
from hpfl.planning.filling import fill_at_equal_speed
from hpfl.planning.paper import edge_scheduling
from hpfl.planning.planners import PLANNERS, plan
from hpfl.rng import Stream

EVERYBODY = np.ones(20, dtype=bool)


def lambert_bandwidth_hz(bits, seconds, snr_hz):
    """The paper's formula with its sign and branch put right: an independent way to the least bandwidth."""
    gamma = bits * np.log(2) / (seconds * snr_hz)
    branch = lambertw(-gamma * np.exp(-gamma), k=-1).real
    return -bits * np.log(2) / (seconds * (branch + gamma))


def filled(problem, scheduled):
    return realise(problem, scheduled, *fill_at_equal_speed(problem, scheduled))


@pytest.mark.parametrize("seed", range(5))
def test_filling_agrees_with_bisection_on_the_lambert_formula(seed):
    problem = paper_network(seed)

    def need_hz(latency_s):
        half_s = latency_s / 2
        ue_hz = lambert_bandwidth_hz(problem.ue_bits, half_s - problem.compute_s, problem.ue_snr_hz)
        return ue_hz.sum() + lambert_bandwidth_hz(problem.edge_bits, half_s, problem.edge_snr_hz).sum()

    latency_s = brentq(lambda seconds: need_hz(seconds) - problem.bandwidth_hz, 1.0, 1e3, rtol=1e-13)
    np.testing.assert_allclose(filled(problem, EVERYBODY).latency_s, latency_s, rtol=1e-9)


def test_both_hops_of_every_edge_take_half_the_round():
    times = filled(paper_network(1), EVERYBODY)
    np.testing.assert_allclose(times.edge_phase_s, times.round_latency_s / 2, rtol=1e-9)
    np.testing.assert_allclose(times.edge_upload_s, times.round_latency_s / 2, rtol=1e-9)


def test_all_bandwidth_is_in_use_and_no_more():
    ue_hz, edge_hz = fill_at_equal_speed(paper_network(1), EVERYBODY)
    assert 5e6 * (1 - 1e-9) <= ue_hz.sum() + edge_hz.sum() <= 5e6


def test_an_edge_with_one_hop_left_gives_it_the_whole_round():
    problem = paper_network(2)
    ue_bits, edge_bits = problem.ue_bits.copy(), problem.edge_bits.copy()
    ue_bits[:10], edge_bits[1] = 0.0, 0.0
    times = filled(paper_network(2, ue_bits=ue_bits, edge_bits=edge_bits), EVERYBODY)
    assert times.edge_phase_s[0] == 0.0
    assert times.edge_upload_s[1] == 0.0
    np.testing.assert_allclose(times.latency_s, times.round_latency_s, rtol=1e-9)


def test_an_edge_with_nothing_left_to_send_is_done_at_once():
    problem = paper_network(2)
    ue_bits, edge_bits = problem.ue_bits.copy(), problem.edge_bits.copy()
    ue_bits[:10], edge_bits[0] = 0.0, 0.0
    times = filled(paper_network(2, ue_bits=ue_bits, edge_bits=edge_bits), EVERYBODY)
    assert times.latency_s[0] == 0.0
    np.testing.assert_allclose(times.latency_s[1:], times.round_latency_s, rtol=1e-9)


def test_compute_times_longer_than_the_uploads_stretch_both_hops():
    times = filled(paper_network(3, compute_s=np.linspace(0.0, 500.0, 200)), EVERYBODY)
    assert times.round_latency_s > 1000.0
    np.testing.assert_allclose(times.edge_phase_s, times.edge_upload_s, rtol=1e-9)


@pytest.mark.parametrize("gain", [1e-25, 1e-18, 1e-5])
def test_one_extreme_gain_does_not_stop_the_filling(gain):
    ue_gain = paper_network(4).ue_gain.copy()
    ue_gain[17] = gain
    problem = paper_network(4, ue_gain=ue_gain)
    times = filled(problem, EVERYBODY)
    np.testing.assert_allclose(times.latency_s, times.round_latency_s, rtol=1e-9)
    assert times.round_latency_s >= 2 * problem.ue_bits[17] * np.log(2) / problem.ue_snr_hz[17]


def test_equal_halves_waste_bandwidth_against_the_exact_allocation():
    problem = paper_network(5)
    assert filled(problem, EVERYBODY).round_latency_s > 1.1 * allocate(problem, EVERYBODY).round_latency_s


def test_an_energy_budget_is_met_exactly_where_it_binds():
    problem = paper_network(6)
    free = filled(problem, EVERYBODY)
    energy_j = 0.5 * free.ue_power_w * free.upload_s
    times = filled(paper_network(6, ue_energy_j=energy_j), EVERYBODY)
    np.testing.assert_allclose(times.ue_power_w * times.upload_s, energy_j, rtol=1e-9)
    assert (times.ue_power_w < problem.ue_power_w).all()
    np.testing.assert_allclose(times.latency_s, times.round_latency_s, rtol=1e-9)


def problem_for_scheduling(values, *, max_edges, must=()):
    """Five edges whose importance is worth `values`, at rho = 0.5."""
    staleness = np.zeros(5, dtype=np.int64)
    staleness[list(must)] = 20
    changes = {"rho": 0.5, "phi": 2.0, "importance": np.array(values, float), "staleness": staleness}
    return paper_network(0, K=5, ues=1, max_edges=max_edges, **changes)


def chosen(values, latency_s, *, max_edges, must=()):
    problem = problem_for_scheduling(values, max_edges=max_edges, must=must)
    return np.flatnonzero(edge_scheduling(problem, np.array(latency_s, float))).tolist()


def test_an_edge_passes_if_its_importance_is_worth_at_least_its_latency():
    assert chosen([1.0, 0.99, 3.0, 0.5, 0.0], [2.0, 2.0, 5.0, 1.5, 9.0], max_edges=5) == [0, 2]


def test_at_most_the_cap_pass_and_the_most_important_come_first():
    assert chosen([5, 9, 7, 8, 6], [1, 1, 1, 1, 1], max_edges=2) == [1, 3]


def test_where_no_edge_passes_the_best_scoring_one_uploads():
    assert chosen([0, 0, 0, 0, 0], [5, 4, 3, 4, 5], max_edges=3) == [2]


def test_where_no_edge_passes_scores_that_differ_by_rounding_are_ties_for_the_most_important():
    noise = 1.0 + np.array([0.0, -3e-14, 2e-14, -1e-13, 5e-14])
    assert chosen([1, 3, 2, 1, 3], 1e20 * noise, max_edges=3) == [1]
    assert chosen([0, 0, 0, 0, 0], 7.0 * noise, max_edges=3) == [0]


def test_where_no_edge_passes_a_score_better_by_more_than_rounding_wins():
    assert chosen([1, 3, 2, 1, 3], 1e20 * (1.0 + np.array([0.0, 0.0, 0.0, -1e-6, 0.0])), max_edges=3) == [3]


@pytest.mark.parametrize("rho", [0.0, 1e-15])
def test_edges_that_end_together_are_told_apart_by_importance_and_not_by_rounding(rho):
    for seed in range(40):
        problem = paper_network(seed, K=6, ues=3, rho=rho)
        plan, _ = PLANNERS.get("paper")(problem, {}, Stream(0, "planning"))
        assert np.flatnonzero(plan.scheduled).tolist() == [int(np.argmax(problem.importance))]


def test_edges_at_the_bound_upload_even_beyond_the_cap_and_take_seats():
    assert chosen([9, 9, 0, 0, 0], [1, 1, 1, 1, 1], max_edges=1, must=[2, 4]) == [2, 4]
    assert chosen([9, 8, 0, 0, 0], [1, 1, 1, 1, 1], max_edges=2, must=[2]) == [0, 2]


def test_an_edge_that_cannot_finish_is_not_chosen():
    assert chosen([9, 1, 0, 0, 0], [np.inf, 1, 1, 1, 1], max_edges=2) == [1]


def test_an_unscheduled_edge_can_come_back_because_scores_include_every_edge():
    problem = paper_network(7)
    first = plan(problem, "paper")
    left_out = int(np.flatnonzero(~first.scheduled)[0])
    importance = problem.importance.copy()
    importance[left_out] = 100.0
    assert plan(paper_network(7, importance=importance), "paper").scheduled[left_out]


def test_small_rho_late_in_training_still_makes_progress():
    assert plan(paper_network(8, rho=0.0), "paper").scheduled.sum() == 1


def test_a_must_edge_whose_energy_can_never_suffice_is_refused_by_name():
    problem = paper_network(9)
    staleness, energy_j = problem.staleness.copy(), np.full(200, 1.0)
    staleness[3], energy_j[35] = 20, 1e-30
    with pytest.raises(InfeasibleError, match=r"edges\[3\].ues\[5\].energy_j is 1e-30"):
        plan(paper_network(9, staleness=staleness, ue_energy_j=energy_j), "paper")
