"""How large a pool planner fastest takes, in how many bits: the formula against simulation, the choice against all."""

from itertools import product

import numpy as np
import pytest
from charged_network import MODEL, SHARES, USUAL, charged_network
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.planning.bandwidth import allocate
from hpfl.planning.broadcast import broadcast_time, forwards
from hpfl.planning.learned import Learned
from hpfl.planning.pool import Coded, best_choice, gain

EDGES, WIDTH = 10, 12


def known(spread=3.0, curvature=0.3, **more):
    return Learned(signal=1.0, spread=spread, curvature=curvature, **more)


def ways_of(problem, noises=USUAL):
    """The menu of a problem, each entry with what it adds to an update."""
    return [
        Coded(entry=entry, problem=problem.coded(entry), noise=noise, step_noise=USUAL[entry])
        for entry, noise in enumerate(noises)
    ]


def chosen(problem, learned, noises=USUAL, **more):
    return best_choice(ways_of(problem, noises), np.arange(problem.num_edges), learned, **more)


@pytest.mark.parametrize("size", [3, EDGES])
def test_noise_of_coding_costs_what_it_takes_from_a_step_on_a_quadratic(size):
    """One step with the whole gradient in every update, on a loss that is an eighth as steep in all other directions.

    The loss falls by `<g, p> - q/2 (|p along g|^2 + |p beside g|^2 / 8)`.
    """
    draw, q, up, down, width = np.random.default_rng(size), 0.4, 16.0, 4.0, 300
    g = draw.normal(size=width)
    square = g @ g
    expected, step = gain(known(0.0, q), np.array([float(size)]), EDGES, noise=up, step_noise=down)
    noises = np.sqrt(up * square / width) * draw.normal(size=(2000, size, width))
    mean = g + noises.mean(axis=1)
    coded = mean + np.sqrt(down * (mean**2).sum(axis=1, keepdims=True) / width) * draw.normal(size=mean.shape)
    p = step * coded
    along = (p @ g) ** 2 / square
    bent = along + ((p**2).sum(axis=1) - along) / 8
    assert ((p @ g - 0.5 * q * bent) / square).mean() == pytest.approx(expected[0], rel=0.03)


def test_a_pool_that_stays_loses_what_a_step_of_all_edges_would_gain_where_it_settles():
    """There the gradient of all edges is what the pool leaves out, and a step along it gains its square."""
    draw, q, size = np.random.default_rng(1), 0.2, 3
    centres = draw.normal(size=(EDGES, WIDTH))
    spread = q**2 * ((centres - centres.mean(axis=0)) ** 2).sum() / (EDGES - 1)
    pools = np.argsort(draw.random((4000, EDGES)), axis=1)[:, :size]
    (whole, step), (left, _) = (
        gain(known(value, q), np.array([float(size)]), EDGES, noise=0.0, step_noise=0.0) for value in (0.0, spread)
    )
    w = np.zeros((4000, WIDTH))
    for _ in range(200):
        w -= step * q * (w - centres[pools].mean(axis=1))
    gradient = q * (w - centres.mean(axis=0))
    assert step[0] * (gradient**2).sum(axis=1).mean() == pytest.approx(whole[0] - left[0], rel=0.05)


def test_a_pool_of_all_leaves_nothing_out():
    everybody = np.array([float(EDGES)])
    of_many, of_none = (gain(known(spread), everybody, EDGES, noise=0.0, step_noise=0.0) for spread in (50.0, 0.0))
    assert of_many == of_none


def all_rates(problem, learned, sizes, price):
    """The rate of every coding each way and every size, computed one by one."""
    K, found = problem.num_edges, {}
    for up, down, size in product(range(len(SHARES)), range(len(SHARES)), sizes):
        pool = np.arange(K) < size
        again = 0.0 if forwards(size, MODEL * SHARES[down], MODEL * SHARES[up]) else USUAL[down]
        worth, step = gain(learned, np.array([float(size)]), K, noise=USUAL[up], step_noise=again)
        bits = problem.downlink.step(size, up, down)
        made = allocate(problem.coded(up), pool)
        seconds = made.round_latency_s + broadcast_time(problem.downlink, pool, bits, problem.bandwidth_hz).seconds
        count = np.bincount(problem.edge_of_ue)[0]
        part_hz = problem.bandwidth_hz / count
        sent_s = MODEL * SHARES[up] / (part_hz * np.log2(1.0 + problem.ue_snr_hz / part_hz))
        seconds += price * (problem.ue_power_w * sent_s)[pool[problem.edge_of_ue]].sum()
        found[up, down, size] = worth[0] / seconds if worth[0] > 0 else worth[0], float(step[0])
    return found


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 100),
    spread=st.floats(0.1, 60.0),
    curvature=st.floats(0.01, 3.0),
    price=st.sampled_from([0.0, 5.0]),
    spectrum=st.sampled_from(["fixed", "phased"]),
)
def test_the_greatest_rate_is_chosen(seed, spread, curvature, price, spectrum):
    problem, learned = charged_network(seed, K=5, ues=2, spectrum=spectrum), known(spread, curvature)
    rates = all_rates(problem, learned, range(2, 6), price)
    choice = chosen(problem, learned, seconds_per_joule=price)
    rate, step = rates[choice.way.entry, choice.down.entry, choice.size]
    best = max(rate for rate, _ in rates.values())
    assert rate >= best - 1e-3 * abs(best)
    assert choice.step == pytest.approx(step)


def test_pools_grow_with_what_edges_differ():
    problem = charged_network(2)
    sizes = [chosen(problem, known(spread)).size for spread in (0.01, 1.0, 5.0, 30.0, 300.0)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (2, 12)


def test_more_bits_travel_where_noise_costs_more():
    problem = charged_network(2)
    loud = [8 * noise for noise in USUAL]
    bits = [SHARES[chosen(problem, known(1.0, q), loud).way.entry] for q in (0.001, 0.05, 0.5, 1.0)]
    assert bits == sorted(bits)
    assert bits[0] < bits[-1]


def test_without_noise_the_fewest_bits_win_and_with_infinite_noise_all():
    problem = charged_network(2)
    order = np.arange(problem.num_edges)
    silent = [Coded(**{**vars(way), "step_noise": 0.0}) for way in ways_of(problem, (0.0,) * 4)]
    noisy = [Coded(**{**vars(way), "step_noise": 1e9 * way.entry}) for way in ways_of(problem, (0.0, 1e9, 1e9, 1e9))]
    assert best_choice(silent, order, known()).way.entry == 3
    choice = best_choice(noisy, order, known())
    assert (choice.way.entry, choice.down.entry) == (0, 0)


def test_a_price_per_joule_makes_the_pool_smaller():
    problem = charged_network(2, compute_j=np.full(36, 0.5))
    sizes = [chosen(problem, known(3.0), seconds_per_joule=price).size for price in (0.0, 0.1, 1.0, 100.0)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_computing_counts_among_the_joules():
    free, dear = (charged_network(2, compute_j=np.full(36, joules)) for joules in (0.0, 5.0))
    sizes = [chosen(problem, known(3.0), seconds_per_joule=0.1).size for problem in (free, dear)]
    assert sizes[1] < sizes[0]


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 100), held=st.integers(2, 5), spread=st.floats(0.1, 60.0))
def test_a_pool_only_grows_and_by_a_tenth_more_or_not_at_all(seed, held, spread):
    problem, learned = charged_network(seed, K=5, ues=2), known(spread)
    rates = all_rates(problem, learned, range(2, 6), 0.0)
    best = {size: max(rate for (_, _, n), (rate, _) in rates.items() if n == size) for size in range(2, 6)}
    choice = chosen(problem, learned, size=held)
    assert choice.size >= held
    worth = max(rate for size, rate in best.items() if size >= held)
    assert choice.size == held if worth < 1.099 * best[held] else choice.size > held or worth < 1.101 * best[held]


def test_the_only_edge_is_the_pool():
    choice = chosen(charged_network(3, K=1), known())
    assert choice.size == 1
    assert 0 < choice.step <= 1


def delayed(problem, delays):
    """The menu without noise, and with these delays in its place."""
    return [
        Coded(entry=entry, problem=problem.coded(entry), noise=0.0, step_noise=0.0, delay=delay)
        for entry, delay in enumerate(delays)
    ]


def test_fewer_bits_win_while_their_delay_is_short():
    """Uploads that take a fraction of the time are worth it, until they delay too long."""
    problem = charged_network(2)
    entries = [
        best_choice(delayed(problem, (0.0, 0.0, 0.0, delay)), np.arange(12), known()).way.entry
        for delay in (0.0, 0.5, 40.0, 4000.0)
    ]
    assert entries[:2] == [3, 3]
    assert entries[-1] < 3


def test_a_delay_is_worth_what_a_model_lies_behind_with_error_feedback():
    """A coder sends a part `delta` of what it has: while the gradient lasts, the model is `1 / delta - 1` rounds late.

    As many rounds more bring it to the loss that the other has after 16, 24 or 32.
    """
    q, delta = 0.001, 0.3
    late, w, kept, losses = 1 / delta - 1, 1.0, 0.0, []
    for _ in range(200):
        sent = delta * (kept + q * w)
        w, kept = w - sent, kept + q * w - sent
        losses.append(w**2)
    rounds = np.arange(1, 201)
    behind = [rounds[np.array(losses) <= (1 - q) ** (2 * n)][0] - n for n in (16, 24, 32)]
    assert np.mean(behind) == pytest.approx(late, abs=1.0)


def test_what_was_sparse_before_is_soon_sent_again():
    sparse = Coded(entry=0, problem=charged_network(2), noise=0.0, step_noise=0.0, delay=8.0)
    fine, plain = (Coded(**{**vars(sparse), "delay": delay}) for delay in (2.0, 0.0))
    assert sparse.again(1.0, plain, 50.0) == 8.0  # nobody has coded it: all of the delay
    assert sparse.again(1.0, sparse, 1.0) == 1.5
    assert fine.again(4.0, sparse, 1.0) == 0.0
    assert plain.again(50.0, sparse, 1.0) == 0.0
