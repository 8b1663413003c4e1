import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.network.energy import compute_j, transmit_j
from hpfl.network.latency import compute_s, rate_bps, upload_s

hertz = st.floats(1.0, 1e9)


def test_rate_of_one_megahertz_at_snr_one_is_one_megabit():
    assert rate_bps(np.array([1e6]), np.array([1e6])) == pytest.approx(1e6)


def test_no_bandwidth_carries_nothing_and_never_finishes():
    assert rate_bps(np.zeros(1), np.ones(1)) == 0.0
    assert upload_s(np.ones(1), np.zeros(1), np.ones(1)) == np.inf


def test_nothing_to_send_takes_no_time_even_without_bandwidth():
    assert upload_s(np.zeros(1), np.zeros(1), np.ones(1)) == 0.0


@settings(deadline=None)
@given(bandwidth=hertz, snr=hertz)
def test_rate_stays_below_its_power_limit(bandwidth, snr):
    rate = rate_bps(np.array([bandwidth]), np.array([snr]))
    assert 0 < rate[0] <= snr / np.log(2.0) * (1 + 1e-12)


@settings(deadline=None)
@given(bandwidth=hertz, snr=hertz, more=st.floats(1.01, 100.0))
def test_more_bandwidth_is_never_slower(bandwidth, snr, more):
    rates = rate_bps(np.array([bandwidth, bandwidth * more]), np.array([snr, snr]))
    assert rates[1] >= rates[0]


@settings(deadline=None)
@given(bandwidth=hertz, snr=st.floats(1e3, 1e9))
def test_slope_of_the_rate_has_the_missing_factor_of_the_papers_proof(bandwidth, snr):
    """`r' = (ln(1+x) - x/(1+x)) / ln 2` with x = s/b (docs/errata.md, row 15)."""
    x, h = snr / bandwidth, bandwidth * 1e-6
    around = rate_bps(np.array([bandwidth - h, bandwidth + h]), np.array([snr, snr]))
    slope = (np.log1p(x) - x / (1 + x)) / np.log(2.0)
    assert (around[1] - around[0]) / (2 * h) == pytest.approx(slope, rel=1e-3, abs=1e-7)


def test_compute_time_counts_cycles_per_bit_not_per_sample():
    """300 MNIST samples, 20 cycles/bit, 2 GHz: 20 * 784 * 8 * 300 / 2e9 s (docs/errata.md, row 12)."""
    seconds = compute_s(np.array([300]), cycles_per_bit=np.array([20.0]), sample_bits=784 * 8, cpu_hz=np.array([2e9]))
    assert seconds == pytest.approx(0.018816)


def test_compute_energy_is_kappa_cycles_frequency_squared():
    cycles, cpu_hz = 20.0 * 784 * 8 * 300, 2e9
    assert compute_j(np.array([cycles / cpu_hz]), np.array([cpu_hz])) == pytest.approx(1e-28 * cycles * cpu_hz**2)


def test_transmit_energy_is_power_times_time():
    assert transmit_j(np.array([0.01]), np.array([3.0])) == pytest.approx(0.03)
