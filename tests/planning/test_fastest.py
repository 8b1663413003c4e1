"""Planner fastest where hearing costs: who is called and who hears, what it may not know, and what it remembers."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from charged_network import MODEL, USUAL, charged_network
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network

from hpfl.planning.checking import checked_answer
from hpfl.planning.planners import PLANNERS
from hpfl.planning.problem import ARRIVED
from hpfl.rng import Streams

WIDTH = 16


def planned(problem, memory=None, **options):
    return PLANNERS.get("fastest", **options)(problem, memory or {}, Streams(0).at("planning"))


def kept(memory):
    """A memory as a checkpoint keeps it."""
    return json.loads(json.dumps(memory))


class Trained:
    """A quadratic `q/2 |w - c_k|^2` that the planner trains, edges holding the model that they last heard of.

    Coding adds `louder` times what it usually does.
    """

    def __init__(self, *, K=12, curvature=0.3, apart=1.0, seed=0, louder=0.1, **changes):
        self.draw = np.random.default_rng(seed)
        self.K, self.curvature, self.seed, self.louder, self.changes = K, curvature, seed, louder, changes
        self.centres = apart * self.draw.normal(size=(K, WIDTH)) / np.sqrt(WIDTH)
        self.w = 3.0 * self.draw.normal(size=WIDTH) / np.sqrt(WIDTH)
        self.held = np.tile(self.w, (K, 1))
        self.staleness = np.zeros(K, dtype=np.int64)
        self.memory, self.rounds = {}, []

    def excess(self):
        return 0.5 * self.curvature * float(((self.w - self.centres.mean(axis=0)) ** 2).sum())

    def updates(self):
        return self.curvature * (self.held - self.centres)

    def problem(self):
        """The next round's, in which edges that did not hear lack the whole model."""
        made = charged_network(self.seed, K=self.K, staleness=self.staleness)
        lacks = np.where(self.staleness > 0, MODEL, 0.0)
        noise = self.louder * np.outer((self.updates() ** 2).sum(axis=1), USUAL)
        known = {
            "downlink": replace(made.downlink, edge_bits=lacks, cell_bits=lacks),
            "codings": replace(made.codings, noise=noise),
        }
        return replace(made, **{**known, **self.changes})

    def play(self, rounds=1, **options):
        for _ in range(rounds):
            problem = self.problem()
            answer = planned(problem, self.memory, **options)
            checked_answer(answer, problem, "fastest")
            self._take(problem, *answer)
        return self.rounds

    def _take(self, problem, plan, memory):
        size = np.sqrt(problem.codings.noise[:, [plan.coding]] / WIDTH)
        updates = self.updates() + size * self.draw.normal(size=(self.K, WIDTH))
        moved = plan.step_scale * updates[plan.scheduled].mean(axis=0)
        told = {str(edge): updates[edge].tolist() for edge in np.flatnonzero(plan.scheduled)}
        self.w = self.w - moved
        self.held[plan.hears] = self.w
        self.staleness = np.where(plan.hears, 0, self.staleness + 1)
        self.memory = kept({**memory, ARRIVED: {"updates": told, "moved": moved.tolist()}})
        self.rounds.append((problem, plan))


@pytest.fixture(scope="module")
def run():
    made = Trained(staleness_bound=8, apart=0.2)
    made.start = made.excess()
    made.play(40)
    return made


def test_it_learns(run):
    assert run.excess() < 0.1 * run.start


def test_only_edges_that_heard_of_the_model_are_called(run):
    for problem, plan in run.rounds:
        assert (problem.staleness[plan.scheduled] == 0).all()


def test_no_edge_ever_reaches_the_staleness_bound(run):
    assert not any(problem.must.any() for problem, _ in run.rounds)


def test_the_pool_hears_and_so_do_edges_about_to_reach_the_bound(run):
    assert any(not plan.hears.all() for _, plan in run.rounds)
    for problem, plan in run.rounds:
        assert plan.hears[problem.staleness + 1 >= problem.staleness_bound].all()
        assert plan.broadcast == "all"


def test_when_many_are_due_all_hear_and_then_all_upload_and_the_pool_is_doubled(run):
    told = [bool(plan.hears.all()) for _, plan in run.rounds]
    first = told.index(True, 1)  # round 0 goes by a guess
    before, after = run.rounds[first][1], run.rounds[first + 1][1]
    assert before.hears.all()
    assert not before.scheduled.all()
    assert after.scheduled.all()
    pool, doubled = run.rounds[first - 1][1].scheduled.sum(), run.rounds[first + 2][1].hears.sum()
    assert doubled >= min(2 * pool, run.K)


def test_a_pool_keeps_its_edges_while_the_network_stays_the_same():
    pools = [set(np.flatnonzero(plan.hears).tolist()) for _, plan in Trained(apart=0.5).play(12)[2:]]
    assert all(before <= after for before, after in pairwise(pools))
    assert len(pools[0]) < 12


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 1000), K=st.integers(1, 7), bound=st.sampled_from([1, 2, 5, 20]), apart=st.floats(0.0, 6.0))
def test_a_few_rounds_on_any_network_are_feasible_and_call_only_who_heard(seed, K, bound, apart):
    made = Trained(K=K, seed=seed, apart=apart, staleness_bound=bound, max_edges=max(1, K // 2))
    for problem, plan in made.play(6):
        assert plan.scheduled.any()
        assert (problem.staleness[plan.scheduled & ~problem.must] == problem.staleness.min()).all()
        assert 0 < plan.step_scale <= 1


def test_a_bound_of_one_round_is_no_endless_census():
    made = Trained(staleness_bound=1, apart=0.05)
    called = [int(plan.scheduled.sum()) for _, plan in made.play(6)]
    assert max(called[1:]) < 12
    assert all(plan.hears.all() for _, plan in made.rounds)


def test_where_hearing_is_free_everybody_hears_and_edges_take_turns():
    made = Trained(downlink=None, apart=0.0)
    calls = np.sum([plan.scheduled for _, plan in made.play(12)[2:]], axis=0)
    assert all(plan.hears.all() for _, plan in made.rounds)
    assert calls.max() - calls.min() <= 1


def test_plans_repeat():
    one, other = Trained(), Trained()
    for (_, first), (_, second) in zip(one.play(5), other.play(5), strict=True):
        np.testing.assert_array_equal(first.scheduled, second.scheduled)
        np.testing.assert_array_equal(first.ue_bandwidth_hz, second.ue_bandwidth_hz)
    assert one.memory == other.memory


def same(one, other):
    """Whether two plans decide alike."""
    arrays = ("scheduled", "hears", "ue_bandwidth_hz", "edge_bandwidth_hz")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays) and all(
        getattr(one, name) == getattr(other, name) for name in ("step_scale", "coding", "step_coding", "noise_scale")
    )


def test_nothing_goes_by_importance_which_the_cloud_cannot_know(run):
    problem, plan = run.rounds[20]
    made = Trained(staleness_bound=8, apart=0.2)
    made.play(20)
    expected, memory = planned(problem, made.memory)
    assert same(expected, plan)
    found, remembered = planned(replace(problem, importance=np.geomspace(1e-9, 1e9, 12)), made.memory)
    assert same(found, expected)
    assert remembered == memory


def test_nothing_is_known_of_the_coding_of_updates_that_have_not_come(run):
    problem, plan = run.rounds[20]
    made = Trained(staleness_bound=8, apart=0.2)
    made.play(20)
    noise = problem.codings.noise.copy()
    noise[~plan.scheduled] = 1e30
    found, memory = planned(replace(problem, codings=replace(problem.codings, noise=noise)), made.memory)
    assert same(found, plan)
    assert memory == planned(problem, made.memory)[1]
    for called in (noise, 7.0 * noise):  # what called edges say counts from the next round on
        assert same(planned(replace(problem, codings=replace(problem.codings, noise=called)), made.memory)[0], plan)


def test_the_louder_a_coding_is_the_more_bits_are_sent():
    coded = [Trained(louder=louder, apart=0.2).play(6)[-1][1].coding for louder in (0.0, 1.0, 1e4)]
    assert coded == sorted(coded, reverse=True)
    assert coded[0] == 3
    assert coded[-1] < 3


def test_a_price_per_joule_calls_fewer_edges():
    called = [
        np.mean(
            [
                plan.scheduled.sum()
                for _, plan in Trained(apart=0.8, compute_j=np.full(36, 0.5)).play(8, seconds_per_joule=price)
            ]
        )
        for price in (0.0, 1.0)
    ]
    assert called[1] < called[0]


def test_the_cap_holds():
    made = Trained(apart=6.0, curvature=1.0, max_edges=3)
    assert max(int(plan.scheduled.sum()) for _, plan in made.play(10)) == 3


def test_with_sketches_it_is_the_first_version():
    draw = np.random.default_rng(0)
    problem = paper_network(1, sketches=draw.normal(size=(20, 8)), staleness=np.zeros(20, dtype=np.int64))
    plan, memory = planned(problem)
    first, remembered = PLANNERS.get("fastest-v1")(problem, {}, Streams(0).at("planning"))
    assert replace(first, planner="fastest").planner == plan.planner
    assert np.array_equal(plan.scheduled, first.scheduled)
    assert (plan.step_scale, memory) == (first.step_scale, remembered)


def test_edges_that_come_and_go_keep_their_names():
    made = Trained(K=6)
    made.play(4)
    problem = charged_network(4, K=6).of_edges(np.array([0, 2, 5]))
    plan, memory = planned(problem, made.memory)
    assert plan.scheduled.size == 3
    assert set(memory["called"]) <= {str(edge) for edge in range(6)}
    checked_answer((plan, memory), problem, "fastest")


def test_a_round_of_which_nothing_arrives_changes_nothing_that_was_learned():
    made = Trained()
    made.play(4)
    problem = charged_network(4, staleness=made.staleness)
    plan, memory = planned(problem, made.memory)
    lost = {**memory, ARRIVED: {"updates": {}, "moved": [0.0] * WIDTH}}
    again, _ = planned(problem, kept(lost))
    assert again.noise_scale == plan.noise_scale
    assert again.step_scale == plan.step_scale
