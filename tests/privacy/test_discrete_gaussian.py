"""Noise in whole numbers has the distribution that it should have, and so have sums of it."""

import numpy as np
import pytest
from scipy import stats

from hpfl.privacy.discrete_gaussian import LEAST_SIGMA, discrete_gaussian

COUNT = 400_000


def masses(sigma, most):
    at = np.arange(-most, most + 1)
    mass = np.exp(-(at**2) / (2 * sigma**2))
    return at, mass / mass.sum()


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.7])
def test_each_whole_number_comes_as_often_as_it_should(sigma):
    drawn = discrete_gaussian(sigma, COUNT, np.random.default_rng(1))
    at, mass = masses(sigma, int(8 * sigma) + 2)
    seen, wanted = np.array([(drawn == one).sum() for one in at]), COUNT * mass
    usual = wanted > 10
    assert drawn.shape == (COUNT,)
    assert stats.chisquare(seen[usual], wanted[usual] * seen[usual].sum() / wanted[usual].sum()).pvalue > 1e-3


@pytest.mark.parametrize("sigma", [50.0, 1e6])
def test_large_noise_is_normal(sigma):
    drawn = discrete_gaussian(sigma, COUNT, np.random.default_rng(2))
    assert abs(drawn.mean()) < 5 * sigma / COUNT**0.5
    assert drawn.std() == pytest.approx(sigma, rel=0.01)
    jittered = drawn + np.random.default_rng(3).uniform(-0.5, 0.5, COUNT)
    assert stats.kstest(jittered / np.sqrt(sigma**2 + 1 / 12), "norm").pvalue > 1e-3


def test_sums_of_shares_are_as_good_as_one_draw():
    rng, ues = np.random.default_rng(4), 10
    total = sum(discrete_gaussian(LEAST_SIGMA, COUNT, rng) for _ in range(ues))
    sigma = LEAST_SIGMA * ues**0.5
    at, mass = masses(sigma, int(8 * sigma))
    seen, wanted = np.array([(total == one).sum() for one in at]), COUNT * mass
    usual = wanted > 10
    assert stats.chisquare(seen[usual], wanted[usual] * seen[usual].sum() / wanted[usual].sum()).pvalue > 1e-3


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
def test_a_spread_that_is_none_is_refused(sigma):
    with pytest.raises(ValueError, match="wanted a positive number"):
        discrete_gaussian(sigma, 3, np.random.default_rng(0))
