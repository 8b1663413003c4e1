from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_oracles import least_hz

from hpfl.network.latency import upload_s
from hpfl.planning.link_curve import LN2, energy_nats, link_curve, spectral_nats

ratios = st.floats(-30, 30).map(lambda exponent: 10.0**exponent)


def exact_nats(ratio):
    """`y(r)` to 60 digits and more: Newton on `ln((e^y - 1) / y) = ln(1 + r)`, convex and increasing, from above."""
    with localcontext() as context:
        context.prec = 150
        goal = (1 + Decimal(ratio)).ln()
        y = 2 * goal
        for _ in range(60):
            e = y.exp()
            y -= (((e - 1) / y).ln() - goal) / (e / (e - 1) - 1 / y)
        return y


@settings(deadline=None, max_examples=60)
@given(ratio=ratios)
def test_the_root_is_right_to_the_last_digits(ratio):
    assert spectral_nats(np.array([ratio]))[0] == pytest.approx(float(exact_nats(ratio)), rel=2e-14)


def test_digits_survive_next_to_the_least_time():
    ratio = np.array([1e-15, 1e-12, 1e-9, 1e-6])
    np.testing.assert_allclose(spectral_nats(ratio), [float(exact_nats(r)) for r in ratio], rtol=1e-15)


@settings(deadline=None, max_examples=50)
@given(
    bits=st.floats(1, 1e9),
    snr_hz=st.floats(-8, 20).map(lambda e: 10.0**e),
    ratio=st.floats(-3, 12).map(lambda e: 10.0**e),
)
def test_least_bandwidth_is_what_bisection_finds(bits, snr_hz, ratio):
    seconds = bits * LN2 / snr_hz * (1 + ratio)
    found = snr_hz * link_curve(np.array([ratio])).bandwidth[0]
    assert found == pytest.approx(least_hz(bits, seconds, snr_hz), rel=1e-9)


def test_the_least_bandwidth_sends_the_bits_in_exactly_that_time():
    bits, seconds, snr_hz = np.full(30, 2.5e6), np.linspace(0.1, 10.0, 30), np.logspace(8, 16, 30)
    least_s = bits * LN2 / snr_hz
    hz = snr_hz * link_curve((seconds - least_s) / least_s).bandwidth
    np.testing.assert_allclose(upload_s(bits, hz, snr_hz), seconds, rtol=1e-13)


@settings(deadline=None, max_examples=50)
@given(ratio=st.floats(-8, 12).map(lambda e: 10.0**e), step=st.floats(1.001, 10.0))
def test_bandwidth_falls_and_is_convex_in_time(ratio, step):
    b = 1.0 / (spectral_nats(np.array([ratio, ratio * step])) * (1.0 + np.array([ratio, ratio * step])))
    curve = link_curve(np.array([ratio]))
    tangent = curve.bandwidth - curve.bandwidth * curve.decay * ratio * (step - 1)
    assert b[1] < b[0]
    assert b[1] >= tangent[0] - 1e-13 * b[0]


@settings(deadline=None, max_examples=50)
@given(ratio=st.floats(-3, 12).map(lambda e: 10.0**e))
def test_slopes_match_differences(ratio):
    h = 1e-5
    left, middle, right = (link_curve(np.array([ratio * factor])) for factor in (1 - h, 1.0, 1 + h))
    decay = (np.log(left.bandwidth) - np.log(right.bandwidth)) / (2 * h * ratio)
    bend = (np.log(left.bandwidth * left.decay) - np.log(right.bandwidth * right.decay)) / (2 * h * ratio)
    np.testing.assert_allclose(middle.decay, decay, rtol=1e-6)
    np.testing.assert_allclose(middle.bend, bend, rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(budget=st.floats(1.01, 1e6), late=st.floats(1.001, 1e3))
def test_beyond_the_turn_the_best_power_spends_the_whole_budget(budget, late):
    bits, gain_per_noise, cap_w = 1e6, 1e12, 0.01
    least_s = bits * LN2 / (cap_w * gain_per_noise)
    energy_j = cap_w * least_s * budget
    nats = energy_nats(np.array([least_s]), np.array([cap_w]), np.array([energy_j]))
    seconds = energy_j / cap_w * late
    ratio = np.array([seconds / least_s - 1])
    hz = cap_w * gain_per_noise * link_curve(ratio, nats).bandwidth[0]
    assert hz == pytest.approx(least_hz(bits, seconds, energy_j / seconds * gain_per_noise), rel=1e-8)
    weaker = least_hz(bits, seconds, 0.99 * energy_j / seconds * gain_per_noise)
    assert weaker > hz


def test_a_budget_below_the_least_energy_never_suffices():
    nats = energy_nats(np.array([1.0, 1.0, 1.0]), np.array([0.01] * 3), np.array([0.01, 0.011, np.inf]))
    assert nats[0] == 0
    assert 0 < nats[1] < np.inf
    assert np.isinf(nats[2])
