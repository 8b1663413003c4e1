import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpfl.units import db_to_linear, dbm_to_w, linear_to_db, w_to_dbm


def test_thermal_noise_density_of_the_paper():
    assert dbm_to_w(-174.0) == pytest.approx(3.9810717e-21, rel=1e-7)


def test_three_decibels_double():
    assert db_to_linear(3.0) == pytest.approx(1.9952623)


@given(st.floats(-200, 200))
def test_conversions_are_inverse(value):
    assert linear_to_db(db_to_linear(value)) == pytest.approx(value, abs=1e-9)
    assert w_to_dbm(dbm_to_w(value)) == pytest.approx(value, abs=1e-9)
