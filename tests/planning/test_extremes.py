"""Numbers at the limits of what a problem may say: every planner plans, or refuses in one sentence."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network

import hpfl
from hpfl.planning import load
from hpfl.planning.bandwidth import InfeasibleError
from hpfl.planning.checking import checked_answer
from hpfl.planning.deadline import ConvergenceError
from hpfl.planning.planners import PLANNERS
from hpfl.rng import Streams


def drawn(seed, reach, apart):
    """A small problem, every quantity within `reach` decades of 1: of one magnitude each, or each number of its own."""
    draws = np.random.default_rng(seed)
    counts = draws.integers(1, 4, draws.integers(1, 5))
    K, N = counts.size, int(counts.sum())

    def some(count, low=-reach):
        centre = draws.uniform(low, reach)
        decades = draws.uniform(low, reach, count) if apart else centre + draws.uniform(-1.0, 1.0, count)
        return 10.0 ** np.clip(decades, -60.0, 60.0)

    def or_none(values):
        return np.where(draws.random(values.size) < 0.1, 0.0, values)

    return hpfl.RoundProblem(
        bandwidth_hz=some(1)[0],
        rho=draws.choice([0.0, 1e-12, 0.5, 0.999, 1.0]),
        phi=or_none(some(1))[0],
        max_edges=draws.integers(1, 5),
        staleness_bound=draws.integers(0, 4),
        edge_gain=some(K),
        edge_power_w=some(K),
        edge_noise_w_per_hz=some(K),
        edge_bits=or_none(some(K)),
        importance=or_none(some(K)),
        staleness=draws.integers(0, 3, K),
        edge_of_ue=np.repeat(np.arange(K), counts),
        ue_gain=some(N),
        ue_power_w=some(N),
        ue_noise_w_per_hz=some(N),
        ue_bits=or_none(some(N)),
        compute_s=or_none(some(N)),
        ue_energy_j=some(N) if draws.random() < 0.3 else None,
        sketches=np.clip(draws.normal(size=(K, 3)) * some(K)[:, None], -1e60, 1e60) if draws.random() < 0.5 else None,
        renewal_s=some(K) if draws.random() < 0.5 else None,
        overhead_s=or_none(some(1))[0],
    )


def planned_or_refused(name, problem, rounds=2):
    """Whether each of some rounds was planned; a plan is checked, a refusal is one line."""
    memory, outcomes = {}, []
    for t in range(rounds):
        try:
            answer = PLANNERS.get(name)(problem, memory, Streams(0).at("planning", t))
        except (InfeasibleError, ConvergenceError) as error:
            said = str(error)
            assert said.isprintable(), said
            return [*outcomes, False]
        plan, memory = checked_answer(answer, problem, name)
        assert np.isfinite(plan.round_latency_s)
        outcomes.append(True)
    return outcomes


@pytest.mark.parametrize("name", PLANNERS.names())
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**9), reach=st.sampled_from([30.0, 60.0]), apart=st.booleans())
def test_every_planner_plans_or_refuses_in_one_sentence(name, seed, reach, apart):
    planned_or_refused(name, drawn(seed, reach, apart))


@pytest.mark.parametrize("name", PLANNERS.names())
@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**9), apart=st.booleans())
def test_within_twelve_decades_only_energy_stands_in_the_way(name, seed, apart):
    problem = replace(drawn(seed, 12.0, apart), ue_energy_j=None)
    assert all(planned_or_refused(name, problem))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**9), name=st.sampled_from(sorted(PLANNERS.names())))
def test_a_certificate_that_float64_cannot_hold_does_not_stop_a_plan(seed, name):
    problem = drawn(seed, 60.0, True)
    if planned_or_refused(name, problem, rounds=1) == [True]:
        assert hpfl.plan(problem, name).lower_bound <= hpfl.plan(problem, name, certify=False).objective


def test_the_second_thread_refuses_like_the_first(monkeypatch):
    monkeypatch.setattr(load, "_LINKS_PER_CHUNK", 2)
    monkeypatch.setattr(load, "_CHUNKS_FOR_TWO", 2)
    for seed in (0, 93, 197):  # in which a chunk overflows
        assert planned_or_refused("full", drawn(seed, 60.0, apart=True)) == [False]


def test_the_refusal_says_how_far_apart_the_numbers_are():
    gain = paper_network().ue_gain.copy()
    gain[0], gain[1] = 1e60, 1e-60
    problem = replace(paper_network(), ue_gain=gain, ue_power_w=gain, ue_noise_w_per_hz=1.0 / gain)
    with pytest.raises(
        ConvergenceError, match=r"numbers too far apart to plan with: links that need at least 1.8e-174"
    ):
        hpfl.plan(problem, "full")
