import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpfl.units import db_to_linear, dbm_to_w


def test_thermal_noise_density_of_the_paper():
    assert dbm_to_w(-174.0) == pytest.approx(3.9810717e-21, rel=1e-7)


def test_three_decibels_double():
    assert db_to_linear(3.0) == pytest.approx(1.9952623)


@given(st.floats(-200, 200), st.floats(-100, 100))
def test_decibels_add_where_ratios_multiply(one, other):
    assert db_to_linear(one + other) == pytest.approx(db_to_linear(one) * db_to_linear(other), rel=1e-9)
    assert dbm_to_w(one + other) == pytest.approx(dbm_to_w(one) * db_to_linear(other), rel=1e-9)
