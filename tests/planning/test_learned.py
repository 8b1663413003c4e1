"""What planner fastest learns of the loss from the updates that arrive: squares without noise, curvature, alarms."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.planning.learned import Learned, intended, learn
from hpfl.planning.problem import ARRIVED

EDGES = 12


def took_in(memory, updates, moved=None, *, step=1.0, noise=0.0, alone=False, num_edges=EDGES):
    """What is known once these updates, by edge, have arrived of a plan; and the memory, as a checkpoint keeps it."""
    memory = intended(memory, step=step, noise=noise, num_edges=num_edges, alone=alone)
    made = np.mean(list(updates.values()), axis=0) * step if moved is None else np.asarray(moved)
    told = {name: np.asarray(update).tolist() for name, update in updates.items()}
    known, memory = learn({**memory, ARRIVED: {"updates": told, "moved": made.tolist()}})
    return known, json.loads(json.dumps(memory))


def test_nothing_is_known_before_anything_arrives():
    known, memory = learn({})
    assert known == Learned()
    assert known.noise_scale is None
    assert memory == {}
    assert learn(intended({}, step=1.0, noise=0.0, num_edges=3))[0] == Learned()


@pytest.mark.parametrize("called", [2, 5, EDGES])
def test_signal_and_spread_are_those_of_all_edges_whoever_is_called_and_however_noisy_the_coding(called):
    draw = np.random.default_rng(called)
    gradients = 2.0 + draw.normal(size=(EDGES, 8))
    noise, found = 3.0, []
    for _ in range(3000):
        chosen = draw.permutation(EDGES)[:called]
        updates = gradients[chosen] + np.sqrt(noise / 8) * draw.normal(size=(called, 8))
        known, _ = took_in({}, dict(zip(map(str, chosen), updates, strict=True)), noise=noise)
        found.append((known.signal, known.spread))
    mean = gradients.mean(axis=0)
    spread = ((gradients - mean) ** 2).sum() / (EDGES - 1)
    np.testing.assert_allclose(np.mean(found, axis=0), [mean @ mean, spread], rtol=0.05)


def test_one_update_alone_leaves_the_spread_as_it_was():
    known, memory = took_in({}, {"0": [1.0, 0.0], "1": [0.0, 1.0]})
    again, _ = took_in(memory, {"0": [5.0, 5.0]})
    assert (known.spread, again.spread) == (1.0, 1.0)


def test_what_noise_leaves_of_the_signal_is_never_nothing():
    known, _ = took_in({}, {"0": [1.0, 0.0], "1": [1.0, 0.0]}, noise=100.0)
    assert known.signal == pytest.approx(0.05)
    assert known.noise_scale == 0.0


def test_a_census_counts_alone():
    _, memory = took_in({}, {"0": [9.0, 0.0], "1": [7.0, 0.0]})
    known, _ = took_in(memory, {"0": [1.0, 0.0], "1": [1.0, 2.0]}, alone=True, num_edges=2)
    assert (known.signal, known.spread) == (2.0, 2.0)


def orthogonal(*lengths):
    """Vectors of these lengths along axes of their own."""
    return np.diag(np.array(lengths, dtype=np.float64))


@settings(deadline=None, max_examples=40)
@given(curvature=st.floats(1e-3, 10.0), noise=st.floats(0.0, 50.0), step=st.floats(0.01, 2.0))
def test_the_curvature_of_a_quadratic_is_found_whatever_coding_adds(curvature, noise, step):
    """The loss is `q/2 |w - c_k|^2`; an update is its gradient and the noise of its coding."""
    w, one, other, *noises = orthogonal(3.0, 1.0, 2.0, *[np.sqrt(noise)] * 4)
    then = {"0": curvature * (w - one) + noises[0], "1": curvature * (w - other) + noises[1]}
    move = step * np.mean(list(then.values()), axis=0)
    _, memory = took_in({}, then, move, step=step, noise=noise)
    here = {"1": curvature * (w - move - other) + noises[2], "7": curvature * (w - move - 5.0 * one) + noises[3]}
    known, _ = took_in(memory, here, step=step, noise=noise)
    assert known.curvature == pytest.approx(curvature, rel=1e-6, abs=1e-9)


def test_the_last_moves_curvature_counts_where_it_is_larger_than_the_mean():
    memory, found = {}, []
    for slope in (1.0, 0.9, 0.7, 0.1):
        known, memory = took_in(memory, {"0": [slope, 0.0]}, moved=[1.0, 0.0])
        found.append(known.curvature)
    assert found[1:3] == pytest.approx([0.1, 0.2])
    assert found[3] == pytest.approx(0.6)
    known, _ = took_in(memory, {"0": [0.1, 0.0]}, moved=[1.0, 0.0])
    assert 0.0 < known.curvature < 0.6


def test_without_an_edge_that_came_twice_nothing_is_said_of_the_curvature():
    _, memory = took_in({}, {"0": [1.0, 0.0]})
    known, _ = took_in(memory, {"1": [0.5, 0.0]})
    assert known.curvature == 0.0


def watched(changes):
    """The ceiling after rounds in which the loss changes by so much: over a move of `-x` along a slope of 1 by `x`."""
    memory, ceilings = {}, []
    for change in (*changes, 0.0):
        known, memory = took_in(memory, {"0": [1.0, 0.0]}, moved=[-change, 0.0])
        ceilings.append(known.ceiling)
    return ceilings[1:]


def test_a_rising_loss_halves_the_ceiling_and_a_falling_one_restores_it():
    assert watched([-10.0, 9.0, 9.0]) == [1.0, 0.5, 0.25]
    recovered = watched([-10.0, 9.0, *[-2.0] * 20])
    assert recovered[2] == 0.525
    assert recovered[-1] == 1.0


def test_a_rise_within_a_fiftieth_of_all_that_the_loss_has_fallen_is_none():
    assert watched([-100.0, *[-1e-9] * 30, 1.9])[-1] == 1.0
    assert watched([-100.0, *[-1e-9] * 30, 2.1])[-1] == 0.5


def test_alarms_never_bring_the_ceiling_below_a_sixty_fourth():
    assert watched([1.0] * 20)[-1] == 1 / 64


def test_a_round_in_which_nothing_arrives_is_as_if_it_had_not_been():
    known, memory = took_in({}, {"0": [1.0, 0.0], "1": [0.0, 2.0]})
    empty = {**intended(memory, step=0.5, noise=1.0, num_edges=EDGES), ARRIVED: {"updates": {}, "moved": [0.0, 0.0]}}
    assert learn(empty) == (known, memory)


@settings(deadline=None, max_examples=60)
@given(curvature=st.floats(0.0, 100.0), noise=st.floats(0.0, 50.0), ceiling=st.floats(1 / 64, 1.0))
def test_no_other_step_below_the_ceiling_gains_more_of_a_noisy_move(curvature, noise, ceiling):
    def gained(step):
        return step - 0.5 * curvature * step**2 * (1.0 + noise)

    longest = float(Learned(curvature=curvature, ceiling=ceiling).longest(noise))
    assert 0.0 < longest <= ceiling
    others = np.linspace(0.0, ceiling, 200)
    assert gained(longest) >= gained(others).max() - 1e-12
