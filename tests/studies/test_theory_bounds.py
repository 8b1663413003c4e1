"""The lemmas and the theorem: by hand, and against losses whose constants are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logistic_ues import Logistic, stale_run

from hpfl.studies.theory_bounds import (
    Constants,
    RunCourse,
    corrected_bound,
    drift_sq,
    meta_diversity,
    meta_smoothness,
    nu,
    phi,
    printed_bound,
    printed_diversity,
    printed_smoothness,
    smoothness_bound,
)

CONSTANTS = Constants(
    smoothness=2.0, gradient_bound=3.0, hessian_lipschitz=5.0, gradient_diversity=0.5, hessian_diversity=0.25
)
# three edges, three rounds: edges 0 and 1 fresh; edge 2 one round late; edges 0 (fresh since round 1) and 1 (too)
COURSE = RunCourse(
    outer_lr=np.array([0.1, 0.1, 0.2]),
    loss=np.array([4.0, 3.0, 2.5, 2.6]),
    gradient_sq=np.array([1.0, 4.0, 9.0, 0.0]),
    edge_gradient_sq=np.array([[1.0, 3.0, 8.0], [2.0, 4.0, 5.0], [6.0, 7.0, 9.0], [0.0, 0.0, 0.0]]),
    slope=np.array([0.5, -1.0, 2.0]),
    direction_sq=np.array([1.5, 8.0, 3.0]),
    aggregated=np.array([[1, 1, 0], [0, 0, 1], [1, 1, 0]], dtype=bool),
    staleness=np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0]]),
)


def test_lemmas_as_printed_by_hand() -> None:
    assert printed_smoothness(CONSTANTS, 0.1) == pytest.approx(4 * 2 + 0.1 * 5 * 3)
    assert printed_diversity(CONSTANTS, 0.1) ** 2 == pytest.approx(3 * 9 * 0.01 * 0.0625 + 192 * 0.25)


def test_lemmas_put_right_by_hand() -> None:
    assert meta_smoothness(CONSTANTS, 0.1) == pytest.approx(2 * 1.2**2 + 0.1 * 5 * 3)
    assert meta_diversity(CONSTANTS, 0.1) == pytest.approx(0.1 * 3 * 0.25 + 1.2**2 * 0.5)


def test_without_adaptation_the_personalised_loss_is_the_loss() -> None:
    assert meta_smoothness(CONSTANTS, 0.0) == CONSTANTS.smoothness
    assert meta_diversity(CONSTANTS, 0.0) == CONSTANTS.gradient_diversity


def test_joined_constants_serve_both() -> None:
    other = Constants(
        smoothness=1.0, gradient_bound=9.0, hessian_lipschitz=1.0, gradient_diversity=1.0, hessian_diversity=0.0
    )
    assert CONSTANTS.joined(other) == Constants(
        smoothness=2.0, gradient_bound=9.0, hessian_lipschitz=5.0, gradient_diversity=1.0, hessian_diversity=0.25
    )


def test_the_theorem_as_printed_by_hand() -> None:
    assert phi(COURSE, 2).tolist() == pytest.approx([5 * 0.1 * 4 / 2, 5 * 0.1 * 4 / 1, 5 * 0.2 * 4 / 2])
    assert nu(COURSE, 2, 0.5).tolist() == pytest.approx([30 * 0.1 * 3 * 0.25 / a for a in (2, 1)] + [0.2 * 30 * 3 / 8])
    importance = np.array([1 + 1, 1, 4 + 9])  # |grad F|^2 at the models of rounds 0, 0; 0; 1, 2
    expected = phi(COURSE, 2) * importance + nu(COURSE, 2, 0.5)
    np.testing.assert_allclose(printed_bound(COURSE, staleness_bound=2, gamma_f=0.5), expected)


def test_the_corrected_theorem_by_hand() -> None:
    assert COURSE.num_bases.tolist() == [1, 1, 2]
    # round 1: one edge, one round back: 1 * 0.1^2 * mean(1, 3); round 2: half the edges one round back: 0.1^2 * 8 / 2
    np.testing.assert_allclose(drift_sq(COURSE), [0.0, 0.01 * 2, 0.5 * 0.01 * 8])
    expected = [
        -0.05 * 1 + 0.05 * (0.1 * 4 - 1) * 1.5 + 0.1 * 1 * 3 * 0.25 / 2,
        -0.05 * 4 + 0.05 * (0.1 * 4 - 1) * 8.0 + 0.1 * 1 * 3 * 0.25 / 1 + 0.1 * 16 * 0.02,
        -0.10 * 9 + 0.10 * (0.2 * 4 - 1) * 3.0 + 0.2 * 2 * 3 * 0.25 / 2 + 0.2 * 16 * 0.04,
    ]
    np.testing.assert_allclose(corrected_bound(COURSE, l_f=4.0, gamma_f=0.5), expected)


def test_a_round_without_updates_is_bounded_by_nothing() -> None:
    none = np.zeros((1, 2), dtype=bool)
    still = RunCourse(
        outer_lr=np.zeros(1), loss=np.ones(2), gradient_sq=np.ones(2), edge_gradient_sq=np.ones((2, 2)),
        slope=np.zeros(1), direction_sq=np.zeros(1), aggregated=none, staleness=none.astype(np.int64),
    )  # fmt: skip
    assert still.num_bases.tolist() == [0]
    for bound in (
        printed_bound(still, staleness_bound=3, gamma_f=1.0),
        corrected_bound(still, l_f=2.0, gamma_f=1.0),
        smoothness_bound(still, 2.0),
    ):
        assert bound.tolist() == [0.0]


ALPHAS = st.floats(0.0, 3.0)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), alpha=ALPHAS, reach=st.floats(0.01, 3.0))
def test_lemma_1_put_right_bounds_every_change_of_the_gradient(seed: int, alpha: float, reach: float) -> None:
    ues, generator = Logistic.draw(seed), np.random.default_rng(seed)
    here = generator.normal(size=3)
    there = here + reach * generator.normal(size=3)
    constants = ues.constants([here])
    turned = np.linalg.norm(ues.meta_gradients(there, alpha) - ues.meta_gradients(here, alpha), axis=1)
    moved = np.linalg.norm(there - here)
    assert turned.max() <= meta_smoothness(constants, alpha) * moved * (1 + 1e-9)
    if alpha * constants.smoothness <= 1:
        assert turned.max() <= printed_smoothness(constants, alpha) * moved * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), alpha=ALPHAS)
def test_lemma_2_put_right_bounds_the_diversity_of_gradients(seed: int, alpha: float) -> None:
    ues = Logistic.draw(seed)
    here = np.random.default_rng(seed).normal(size=3)
    adapted = here - alpha * ues.gradients(here).mean(axis=0)
    constants = ues.constants([here, adapted])
    rows = ues.meta_gradients(here, alpha)
    measured = float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()))
    assert measured <= meta_diversity(constants, alpha) * (1 + 1e-9)
    if alpha * constants.smoothness <= 1:
        assert meta_diversity(constants, alpha) <= printed_diversity(constants, alpha) * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), alpha=st.floats(0.0, 1.0), step=st.floats(0.05, 5.0))
def test_the_corrected_theorem_bounds_stale_runs_at_any_step(seed: int, alpha: float, step: float) -> None:
    ues = Logistic.draw(seed)
    l_f = meta_smoothness(ues.constants([np.zeros(3)]), alpha)
    course, gamma_f = stale_run(ues, seed=seed, alpha=alpha, beta=step / l_f)
    assert (course.change <= smoothness_bound(course, l_f) + 1e-12).all()
    assert (smoothness_bound(course, l_f) <= corrected_bound(course, l_f=l_f, gamma_f=gamma_f) + 1e-12).all()


def test_the_theorem_as_printed_is_false() -> None:
    """Two equal edges with `f = w^2 / 2`: one is called 40 times, then the other, 40 rounds late, then the first again.

    L = 1, no diversity, `beta = 1 / L_F` with Lemma 1's `L_F = 4`: every premise holds. The late edge throws the model
    over the minimum, and the next step, computed just before, goes on in the same direction.
    """
    rounds, beta, stale = 42, 0.25, 40
    models, held = [1.0], np.zeros(2, dtype=np.int64)
    aggregated, staleness, used = np.zeros((rounds, 2), dtype=bool), np.zeros((rounds, 2), dtype=np.int64), []
    for now in range(rounds):
        edge = 1 if now == stale else 0
        aggregated[now, edge], staleness[now, edge] = True, now - held[edge]
        used.append(models[held[edge]])
        models.append(models[now] - beta * used[now])
        held[edge] = now + 1
    w, g = np.array(models), np.array(used)
    course = RunCourse(
        outer_lr=np.full(rounds, beta), loss=w**2 / 2, gradient_sq=w**2, edge_gradient_sq=np.stack([w**2] * 2, axis=1),
        slope=w[:-1] * g, direction_sq=g**2, aggregated=aggregated, staleness=staleness,
    )  # fmt: skip
    assert staleness.max() == stale
    printed = printed_bound(course, staleness_bound=stale, gamma_f=0.0)
    assert course.change[-1] > 3 * printed[-1] > 0
    assert (course.change <= corrected_bound(course, l_f=4.0, gamma_f=0.0) + 1e-15).all()
