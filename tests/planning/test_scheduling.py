import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.planning.scheduling import schedule_for_latencies


def objective(chosen, latency_s, value, rho):
    longest = max(latency_s[k] for k in chosen)
    wait = (1.0 - rho) * longest if rho < 1 else (0.0 if math.isfinite(longest) else math.inf)
    return -sum(value[k] for k in chosen) + wait


def brute_force(latency_s, value, max_edges, must, rho):
    """The least objective over every allowed set, and the shortest round that reaches it."""
    edges = range(len(value))
    needed = set(np.flatnonzero(must).tolist())
    most = max(max_edges, len(needed))
    sets = (
        chosen for size in range(1, most + 1) for chosen in itertools.combinations(edges, size) if needed <= set(chosen)
    )
    return min((objective(c, latency_s, value, rho), max(latency_s[k] for k in c)) for c in sets)


def solve(latency_s, value, *, max_edges, must=None, rho=0.5):
    latency_s, value = np.asarray(latency_s, dtype=float), np.asarray(value, dtype=float)
    must = np.zeros(value.size, dtype=bool) if must is None else np.asarray(must, dtype=bool)
    chosen = schedule_for_latencies(latency_s, value, max_edges=max_edges, must=must, rho=rho)
    return np.flatnonzero(chosen).tolist()


# Small whole numbers make ties frequent and sums exact, so that equality below means equality.
@st.composite
def instances(draw):
    K = draw(st.integers(1, 7))
    numbers = st.integers(0, 6).map(float)
    latency_s = draw(st.lists(st.one_of(numbers, st.just(math.inf)), min_size=K, max_size=K))
    value = draw(st.lists(numbers, min_size=K, max_size=K))
    must = draw(st.lists(st.booleans(), min_size=K, max_size=K))
    must = [yes and draw(st.booleans()) for yes in must]
    return latency_s, value, draw(st.integers(1, K + 1)), must, draw(st.sampled_from([0.0, 0.25, 0.5, 1.0]))


@settings(deadline=None, max_examples=400)
@given(instances())
def test_the_schedule_reaches_the_best_objective_of_all_sets_in_the_shortest_round(instance):
    latency_s, value, max_edges, must, rho = instance
    chosen = solve(latency_s, value, max_edges=max_edges, must=must, rho=rho)
    assert 1 <= len(chosen) <= max(max_edges, sum(must))
    assert {k for k, needed in enumerate(must) if needed} <= set(chosen)
    best, shortest_s = brute_force(latency_s, value, max_edges, must, rho)
    assert objective(chosen, latency_s, value, rho) == best
    if math.isfinite(best):
        assert max(latency_s[k] for k in chosen) == shortest_s


def test_at_most_max_edges_are_chosen_and_they_are_the_most_important():
    assert solve([1, 1, 1, 1], [5, 9, 7, 1], max_edges=2) == [1, 2]


def test_a_slow_edge_is_chosen_only_if_its_importance_pays_for_the_wait():
    assert solve([1, 10], [3, 4.4], max_edges=2) == [0]
    assert solve([1, 10], [3, 4.6], max_edges=2) == [0, 1]


def test_a_slow_must_edge_makes_slower_edges_up_to_its_latency_free():
    assert solve([1, 9, 10], [1, 1, 1], max_edges=3, must=[False, False, True]) == [0, 1, 2]


def test_the_staleness_bound_outranks_the_cap():
    assert solve([1, 2, 3], [1, 1, 9], max_edges=1, must=[True, True, False]) == [0, 1]


def test_with_importance_worth_nothing_the_fastest_edge_alone_uploads():
    assert solve([3, 2, 5], [0, 0, 0], max_edges=3, rho=0.0) == [1]


def test_at_rho_one_latency_breaks_ties_of_importance():
    assert solve([3, 2, 5], [4, 4, 4], max_edges=2, rho=1.0) == [0, 1]


@pytest.mark.parametrize("rho", [0.0, 0.5, 1.0])
def test_an_edge_that_never_finishes_is_left_out_whatever_its_importance(rho):
    assert solve([math.inf, 2.0], [100, 1], max_edges=2, rho=rho) == [1]


def test_two_thousand_edges_agree_with_a_quadratic_scan():
    generator = np.random.Generator(np.random.Philox(7))
    latency_s, value = generator.random(2000) * 10, generator.random(2000)
    must = np.zeros(2000, dtype=bool)
    must[[5, 900]] = True
    chosen = schedule_for_latencies(latency_s, value, max_edges=40, must=must, rho=0.3)

    def reached(limit_s):
        free = np.flatnonzero(~must & (latency_s <= limit_s))
        top = np.sort(value[free])[::-1][:38].sum()
        return -top - value[must].sum() + 0.7 * limit_s

    best = min(reached(limit) for limit in latency_s if limit >= latency_s[must].max())
    assert -value[chosen].sum() + 0.7 * latency_s[chosen].max() == pytest.approx(best, rel=1e-12)
