"""What releases come to: the closed form, dp-accounting beside it, and the account of a run."""

import builtins
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from hpfl.privacy import (
    Accountant,
    AccountantUnavailableError,
    Ledger,
    accountant,
    delta_of,
    epsilon_of,
    mu_of,
    noise_multiplier_for,
)

DELTA = 1e-5
Z = st.floats(0.3, 50.0)
COUNT = st.integers(1, 2000)


@given(Z, COUNT)
def test_everybody_in_every_round_is_the_closed_form_of_composed_gaussians(z, count):
    epsilon = Accountant((z,), DELTA).epsilon(count)
    mu = math.sqrt(count) / z
    told = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    assert told == pytest.approx(DELTA, rel=1e-6) or (epsilon == 0 and told <= DELTA)
    if epsilon < 300:
        assert delta_of(epsilon + 1e-6, mu) < DELTA or epsilon == 0
        assert delta_of(max(epsilon - 1e-6, 0), mu) >= DELTA or epsilon < 1e-6


@pytest.mark.parametrize(("z", "count"), [(0.8, 1), (1.0, 1), (4.0, 50), (8.0, 300)])
def test_the_closed_form_is_googles(z, count):
    from dp_accounting import get_epsilon_gaussian

    assert epsilon_of(math.sqrt(count) / z, DELTA) == pytest.approx(
        get_epsilon_gaussian(z / math.sqrt(count), DELTA), abs=1e-6
    )


@pytest.mark.parametrize(("multipliers", "count"), [((1.0,), 1), ((4.0,), 40), ((5.0, 20.0), 100)])
def test_rdp_is_above_and_pld_close_to_the_closed_form(multipliers, count):
    exact, rdp, pld = (accountant(name, multipliers, DELTA).epsilon(count) for name in ("exact", "rdp", "pld"))
    assert exact < rdp < 1.5 * exact
    assert exact - 1e-6 <= pld < 1.01 * exact + 1e-3


@given(Z, Z, COUNT)
def test_releases_of_several_parts_add_up_squared(one, other, count):
    assert mu_of([one, other] * count) == pytest.approx(math.sqrt(count * (one**-2 + other**-2)), rel=1e-9)
    assert Accountant((one, other), DELTA).epsilon(count) >= Accountant((one,), DELTA).epsilon(count)


@given(st.floats(0.05, 20.0), COUNT)
def test_the_noise_for_an_epsilon_spends_it_and_no_more(epsilon, count):
    spent = Accountant((noise_multiplier_for(epsilon, DELTA, count),), DELTA).epsilon(count)
    assert spent <= epsilon + 1e-9
    assert spent == pytest.approx(epsilon, rel=1e-6)


def test_no_release_tells_nothing_and_one_without_noise_everything():
    assert Accountant((1.0,), DELTA).epsilon(0) == 0
    assert Accountant((0.0,), DELTA).epsilon(1) == math.inf
    assert mu_of([1.0, 0.0]) == math.inf
    assert delta_of(3.0, math.inf) == 1.0
    assert epsilon_of(1e-9, DELTA) == 0.0


def test_a_missing_package_is_told_with_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(AccountantUnavailableError, match=r"hpfl\[privacy\]"):
        accountant("pld", (1.0,), DELTA)


def test_a_run_is_charged_what_it_tells_of_the_ue_it_tells_most_of():
    ledger = Ledger(accountant=Accountant((2.0,), DELTA))
    spent = ledger.added(ledger.added({}, np.array([1, 0, 1])), np.array([2, 2, 0]))
    assert spent["releases"].tolist() == [3, 2, 1]
    assert ledger.epsilon(spent) == Accountant((2.0,), DELTA).epsilon(3)
    assert ledger.added(spent, None) is spent
    assert ledger.epsilon({}) == 0


@given(st.integers(0, 40), st.integers(1, 4), st.floats(0.5, 8.0))
def test_a_round_that_would_exceed_the_budget_is_the_end(done, per_model, budget):
    own = Accountant((3.0,), DELTA)
    ledger = Ledger(accountant=own, budget=budget, per_model=per_model, edge_of_ue=np.array([0, 0, 1]))
    spent = {"releases": np.array([done, 0, 0])}
    both, second = np.array([True, True]), np.array([False, True])
    assert ledger.is_over(spent, both) == (own.epsilon(done + per_model) > budget)
    assert ledger.is_over(spent, second) == (own.epsilon(per_model) > budget)
    assert not ledger.is_over(spent, ~both)
    assert not Ledger(accountant=own).is_over(spent, both)
    anybody = Ledger(accountant=own, budget=budget, per_model=per_model)
    assert anybody.is_over(spent, ~both) == anybody.is_over(spent, second) == ledger.is_over(spent, both)
