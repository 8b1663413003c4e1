"""The law of every planner, shipped or added: its plan is feasible, says what it really gives, and repeats."""

import itertools
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.planning.bandwidth import allocate
from hpfl.planning.checking import checked_answer
from hpfl.planning.planners import PLANNERS
from hpfl.planning.problem import RoundProblem
from hpfl.rng import Streams

planners = pytest.mark.parametrize("name", PLANNERS.names())


def make_problem(
    seed, *, K=3, most_ues=4, rho=0.8, max_edges=2, staleness_bound=4, decades=3.0, energy=False, spectrum="fixed"
):
    """A random round; some links have delivered, some edges may be at the bound, gains spread over `decades`."""
    streams = Streams(seed)
    edge_of_ue = np.repeat(np.arange(K), 1 + streams.at("ues").integers(most_ues, K))
    N = edge_of_ue.size

    def spread(purpose, count, centre):
        return centre * 10.0 ** (decades * (streams.at(purpose).uniform(count) - 0.5))

    def bits(purpose, count):
        return np.where(streams.at(purpose + "?").uniform(count) < 0.2, 0.0, spread(purpose, count, 1e6))

    ue_gain = spread("ue gain", N, 1e-7)
    ue_bits = bits("ue bits", N)
    least_j = ue_bits * np.log(2) * 4e-21 / ue_gain
    return RoundProblem(
        bandwidth_hz=5e6,
        rho=rho,
        phi=9.33,
        max_edges=max_edges,
        staleness_bound=staleness_bound,
        edge_gain=spread("edge gain", K, 1e-9),
        edge_power_w=np.full(K, 0.01),
        edge_noise_w_per_hz=np.full(K, 4e-21),
        edge_bits=bits("edge bits", K),
        importance=streams.at("importance").exponential(K),
        staleness=streams.at("staleness").integers(staleness_bound + 1, K),
        edge_of_ue=edge_of_ue,
        ue_gain=ue_gain,
        ue_power_w=spread("power", N, 0.01),
        ue_noise_w_per_hz=np.full(N, 4e-21),
        ue_bits=ue_bits,
        compute_s=0.1 * streams.at("compute").exponential(N),
        ue_energy_j=(1e-12 + least_j) * (1.1 + 1e3 * streams.at("energy").exponential(N)) if energy else None,
        spectrum=spectrum,
    )


problems = st.builds(
    make_problem,
    st.integers(0, 10**6),
    K=st.integers(1, 5),
    most_ues=st.sampled_from([1, 4]),
    rho=st.sampled_from([0.0, 0.1, 0.8, 1.0]),
    max_edges=st.integers(1, 6),
    staleness_bound=st.sampled_from([1, 4, 20]),
    decades=st.sampled_from([0.0, 2.0, 12.0]),
    energy=st.booleans(),
    spectrum=st.sampled_from(["fixed", "phased"]),
)


def planned(name, problem, round_index=0):
    return PLANNERS.get(name)(problem, {}, Streams(3).at("planning", round_index))[0]


def seconds(bits, bandwidth_hz, power_w, gain, noise):
    """Upload time from the rate formula `r = b log2(1 + p h / (b N_0))`, link by link."""
    rate = bandwidth_hz * np.log1p(power_w * gain / (bandwidth_hz * noise)) / np.log(2)
    return bits / rate


def most_hz_at_once(problem, plan):
    """Hz in use right after each link begins, the greatest; all of them together where Hz are constant."""
    hz = np.concatenate((plan.ue_bandwidth_hz, plan.edge_bandwidth_hz))
    if plan.switch_s is None:
        return hz.sum()
    begin_s = np.concatenate((problem.compute_s, plan.latency_s - plan.edge_upload_s))
    end_s = np.concatenate((problem.compute_s + plan.upload_s, plan.latency_s)) - 1e-9 * plan.round_latency_s
    return max(hz[(begin_s <= at_s) & (at_s < end_s) & (hz > 0)].sum() for at_s in begin_s)


@planners
@settings(deadline=None, max_examples=40)
@given(problem=problems)
def test_the_set_is_allowed(name, problem):
    plan = planned(name, problem)
    most = max(problem.max_edges, int((problem.staleness >= problem.staleness_bound).sum()))
    assert plan.planner == name
    assert plan.scheduled.any()
    assert plan.scheduled[problem.staleness >= problem.staleness_bound].all()
    assert plan.exceeds_cap == (plan.scheduled.sum() > most)
    assert not plan.exceeds_cap or name == "full"


@planners
@settings(deadline=None, max_examples=40)
@given(problem=problems)
def test_the_plan_passes_the_check_of_every_run(name, problem):
    answer = PLANNERS.get(name)(problem, {}, Streams(3).at("planning"))
    assert checked_answer(answer, problem, name) == answer


@planners
@settings(deadline=None, max_examples=40)
@given(problem=problems)
def test_bandwidth_fits_and_links_left_out_have_none(name, problem):
    plan = planned(name, problem)
    member = plan.scheduled[problem.edge_of_ue]
    hz = np.concatenate((plan.ue_bandwidth_hz, plan.edge_bandwidth_hz))
    assert np.isfinite(hz).all()
    assert (hz >= 0).all()
    assert most_hz_at_once(problem, plan) <= problem.bandwidth_hz * (1 + 1e-9)
    assert plan.switch_s is None or problem.spectrum == "phased"
    assert (plan.ue_bandwidth_hz[~member | (problem.ue_bits == 0)] == 0).all()
    assert (plan.edge_bandwidth_hz[~plan.scheduled | (problem.edge_bits == 0)] == 0).all()
    assert np.isnan(plan.upload_s[~member]).all()
    for times in (plan.edge_upload_s, plan.edge_phase_s, plan.latency_s):
        assert np.isnan(times[~plan.scheduled]).all()


@planners
@settings(deadline=None, max_examples=40)
@given(problem=problems)
def test_times_are_what_the_bandwidth_gives(name, problem):
    plan = planned(name, problem)
    sends = plan.scheduled[problem.edge_of_ue] & (problem.ue_bits > 0)
    backhaul = plan.scheduled & (problem.edge_bits > 0)
    upload_s = np.zeros(problem.num_ues)
    upload_s[sends] = seconds(
        problem.ue_bits[sends],
        plan.ue_bandwidth_hz[sends],
        plan.ue_power_w[sends],
        problem.ue_gain[sends],
        problem.ue_noise_w_per_hz[sends],
    )
    phase_s, edge_upload_s = np.zeros(problem.num_edges), np.zeros(problem.num_edges)
    np.maximum.at(phase_s, problem.edge_of_ue[sends], (upload_s + problem.compute_s)[sends])
    edge_upload_s[backhaul] = seconds(
        problem.edge_bits[backhaul],
        plan.edge_bandwidth_hz[backhaul],
        problem.edge_power_w[backhaul],
        problem.edge_gain[backhaul],
        problem.edge_noise_w_per_hz[backhaul],
    )
    on = plan.scheduled
    np.testing.assert_allclose(plan.upload_s[on[problem.edge_of_ue]], upload_s[on[problem.edge_of_ue]], rtol=1e-9)
    np.testing.assert_allclose(plan.edge_phase_s[on], phase_s[on], rtol=1e-9)
    np.testing.assert_allclose(plan.edge_upload_s[on], edge_upload_s[on], rtol=1e-9)
    start_s = np.where(backhaul, phase_s if plan.switch_s is None else np.fmax(phase_s, plan.switch_s), phase_s)
    np.testing.assert_allclose(plan.latency_s[on], (start_s + edge_upload_s)[on], rtol=1e-9)
    assert plan.round_latency_s == plan.latency_s[on].max()


@planners
@settings(deadline=None, max_examples=40)
@given(problem=problems.filter(lambda problem: problem.ue_energy_j is not None))
def test_power_and_energy_stay_within_their_budgets(name, problem):
    plan = planned(name, problem)
    sends = plan.scheduled[problem.edge_of_ue] & (problem.ue_bits > 0)
    assert (plan.ue_power_w <= problem.ue_power_w * (1 + 1e-12)).all()
    assert (plan.ue_power_w[sends] > 0).all()
    assert ((plan.ue_power_w * plan.upload_s)[sends] <= problem.ue_energy_j[sends] * (1 + 1e-9)).all()


@planners
@settings(deadline=None, max_examples=40)
@given(problem=problems)
def test_objective_and_gap_follow_their_formulas(name, problem):
    plan = planned(name, problem)
    worth = problem.rho * problem.phi * problem.importance[plan.scheduled].sum()
    wait = (1 - problem.rho) * plan.round_latency_s
    assert plan.objective == pytest.approx(wait - worth, rel=1e-12, abs=1e-12 * (wait + worth))
    assert plan.lower_bound <= plan.objective
    if worth + wait > 0:
        assert plan.relative_gap == pytest.approx((plan.objective - plan.lower_bound) / (worth + wait), abs=1e-12)


@planners
@settings(deadline=None, max_examples=15)
@given(problem=problems)
def test_no_set_within_the_cap_beats_the_lower_bound(name, problem):
    plan = planned(name, problem)
    needed = set(np.flatnonzero(problem.must).tolist())
    for size in range(1, problem.most_edges + 1):
        for chosen in itertools.combinations(range(problem.num_edges), size):
            if needed <= set(chosen):
                scheduled = np.isin(np.arange(problem.num_edges), chosen)
                reached = problem.objective(scheduled, allocate(problem, scheduled).round_latency_s)
                scale = problem.scale(scheduled, 0.0) + abs(reached)
                assert plan.lower_bound <= reached + 1e-9 * scale


@planners
@settings(deadline=None, max_examples=15)
@given(problem=problems, round_index=st.integers(0, 99))
def test_a_plan_repeats_and_leaves_its_problem_alone(name, problem, round_index):
    before = asdict(problem)
    first, second = planned(name, problem, round_index), planned(name, problem, round_index)
    np.testing.assert_equal(asdict(first), asdict(second))
    np.testing.assert_equal(asdict(problem), before)


@planners
def test_memory_is_json_and_serves_the_next_round(name):
    plan, memory = PLANNERS.get(name)(make_problem(1), {}, Streams(3).at("planning", 0))
    kept = json.loads(json.dumps(memory, allow_nan=False))
    again, _ = PLANNERS.get(name)(make_problem(2), kept, Streams(3).at("planning", 1))
    assert again.scheduled.size == plan.scheduled.size


@planners
def test_a_round_with_nothing_to_send_takes_no_time(name):
    problem = make_problem(5)
    silent = replace(problem, ue_bits=np.zeros(problem.num_ues), edge_bits=np.zeros(problem.num_edges))
    plan = planned(name, silent)
    assert plan.round_latency_s == 0.0
    assert plan.ue_bandwidth_hz.sum() + plan.edge_bandwidth_hz.sum() == 0.0


@planners
def test_more_edges_at_the_bound_than_the_cap_all_upload(name):
    problem = make_problem(8, K=5, max_edges=2, staleness_bound=0)
    plan = planned(name, problem)
    assert plan.scheduled.all()
    assert not plan.exceeds_cap
