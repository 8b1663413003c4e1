"""Edges in turn: every edge once a cycle, those at the bound first, absent ones passed over; everybody hears."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network

import hpfl
from hpfl.planning.bandwidth import allocate
from hpfl.planning.planners import PLANNERS
from hpfl.rng import Streams

CYCLES = ("round-robin", "random-cycle")
OF_EDGES = ("edge_gain", "edge_power_w", "edge_noise_w_per_hz", "edge_bits", "importance", "staleness")
OF_UES = ("ue_gain", "ue_power_w", "ue_noise_w_per_hz", "ue_bits", "compute_s")


def network(K=6, **changes):
    return replace(paper_network(3, K=K, ues=2), **{"staleness": np.zeros(K, dtype=np.int64), "max_edges": 1} | changes)


def present(problem, active):
    """The problem of the edges that are there, with their UEs; names are their numbers."""
    there = np.flatnonzero(active)
    ues = np.flatnonzero(active[problem.edge_of_ue])
    edges = {name: getattr(problem, name)[there] for name in OF_EDGES}
    links = {name: getattr(problem, name)[ues] for name in OF_UES}
    edge_of_ue = np.searchsorted(there, problem.edge_of_ue[ues])
    return replace(problem, **edges, **links, edge_of_ue=edge_of_ue, edge_ids=tuple(map(str, there)))


def turns(name, problems, *, seed=0, active=None):
    """The edges scheduled round by round, by number; the memory goes through JSON."""
    memory, called = {}, []
    for t, problem in enumerate(problems):
        posed = problem if active is None else present(problem, active[t])
        plan, memory = PLANNERS.get(name)(posed, memory, Streams(seed).at("planning", t))
        called.append(tuple(int(posed.names[edge]) for edge in np.flatnonzero(plan.scheduled)))
        memory = json.loads(json.dumps(memory))
    return called


def test_round_robin_calls_the_edges_in_the_order_of_their_numbers():
    assert turns("round-robin", [network()] * 14) == [(t % 6,) for t in range(14)]


def test_max_edges_does_not_matter():
    assert turns("round-robin", [network(max_edges=4)] * 3) == [(0,), (1,), (2,)]


def test_a_random_cycle_is_drawn_once_and_repeats():
    called = turns("random-cycle", [network()] * 18)
    assert called[:6] == called[6:12] == called[12:]
    assert sorted(called[:6]) == [(edge,) for edge in range(6)]


def test_random_cycles_differ_between_seeds_and_are_all_orders_alike():
    firsts = [turns("random-cycle", [network(K=3)] * 3, seed=seed) for seed in range(120)]
    orders = {tuple(first) for first in firsts}
    assert len(orders) == 6
    assert min(firsts.count(list(order)) for order in orders) >= 8


@pytest.mark.parametrize("name", CYCLES)
def test_an_edge_at_the_bound_goes_first_and_the_others_keep_their_turns(name):
    late = network(staleness=np.array([0, 0, 0, 0, 20, 20]))
    called = turns(name, [network(), late, network(), network()])
    assert called[1] == (4, 5)
    assert called[:1] + called[2:] == turns(name, [network()] * 3)


@pytest.mark.parametrize("name", CYCLES)
def test_an_absent_edge_is_passed_over_and_has_its_turn_when_it_is_back(name):
    whole = [edge for (edge,) in turns(name, [network()] * 6)]
    everybody = np.ones(6, dtype=bool)
    away = np.arange(6) != whole[1]
    called = turns(name, [network()] * 8, active=[everybody, away, *[everybody] * 6])
    assert [edge for (edge,) in called] == [whole[i] for i in (0, 2, 3, 4, 5, 0, 1, 2)]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(CYCLES), there=st.lists(st.integers(1, 15), min_size=12))
def test_nobody_who_is_there_waits_longer_than_a_cycle(seed, name, there):
    """Whoever is there in every round, from the first on, is called at least once in each five rounds of four edges."""
    active = [np.array([bits & 1 << edge > 0 for edge in range(4)]) | (np.arange(4) == seed % 4) for bits in there]
    called = turns(name, [network(K=4)] * len(there), seed=seed, active=active)
    waits = np.flatnonzero([edges == (seed % 4,) for edges in called])
    assert np.diff(waits, prepend=-1, append=len(called)).max() <= 5


@pytest.mark.parametrize("name", CYCLES)
def test_an_edge_that_can_never_finish_is_passed_over(name):
    energy_j = np.full(12, 1.0)
    energy_j[2] = 1e-30
    called = turns(name, [network(ue_energy_j=energy_j)] * 5)
    assert sorted(called) == [(0,), (2,), (3,), (4,), (5,)]


@pytest.mark.parametrize("name", CYCLES)
def test_everybody_hears_and_bandwidth_is_exact_without_sketches(name):
    plan = hpfl.plan(network(), name)
    assert plan.broadcast == "all"
    assert plan.hears is None
    assert plan.step_scale == 1.0
    assert plan.round_latency_s == allocate(network(), plan.scheduled).round_latency_s
    assert not PLANNERS.part(name).traits["sketches"]


def test_scripted_without_a_script_calls_as_many_in_turn_as_there_may_be():
    called = turns("scripted", [network(max_edges=4)] * 3)
    assert called == [(0, 1, 2, 3), (0, 1, 4, 5), (2, 3, 4, 5)]


def test_in_a_run_every_edge_is_heard_once_a_cycle_and_everybody_is_fresh():
    sets = ["network.ues_per_edge=1", "network.edges=4", "data.samples_per_ue=[5, 10]", "training.rounds=6"]
    config = hpfl.load("quickstart-paper", overrides=[*sets, "planning.planner=round-robin"])
    rounds = hpfl.run(config).rounds
    assert [record["aggregated"] for record in rounds] == [[0], [1], [2], [3], [0], [1]]
    assert max(record["max_staleness"] for record in rounds) == 0
