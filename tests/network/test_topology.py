import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hpfl.network.channel import FADINGS
from hpfl.network.distributions import Choice, Constant, LogNormal, Uniform, whole_numbers
from hpfl.network.path_losses import PathLoss
from hpfl.network.topology import FleetSpec, make_fleet
from hpfl.rng import Streams


def spec_of(ues_per_edge, **changes):
    values = {
        "cpu_hz": Constant(2e9),
        "cycles_per_bit": Constant(20.0),
        "ue_power_w": Constant(0.01),
        "edge_power_w": Constant(0.01),
        "ue_distance_m": Uniform(2, 50),
        "edge_distance_m": Uniform(50, 200),
    }
    return FleetSpec(ues_per_edge=np.asarray(ues_per_edge, dtype=np.int64), **(values | changes))


def fleet_of(ues_per_edge, seed=0, **changes):
    return make_fleet(spec_of(ues_per_edge, **changes), np.ones(sum(ues_per_edge), dtype=np.int64), Streams(seed))


def test_edges_may_have_different_numbers_of_ues():
    assert fleet_of([3, 1, 2]).edge_of_ue.tolist() == [0, 0, 0, 1, 2, 2]


def test_distances_fill_the_papers_ranges():
    fleet = fleet_of([50] * 100)
    assert fleet.ue_distance_m.min() >= 2
    assert fleet.ue_distance_m.max() <= 50
    assert stats.kstest(fleet.ue_distance_m, stats.uniform(2, 48).cdf).pvalue > 1e-3
    assert 50 <= fleet.edge_distance_m.min() <= fleet.edge_distance_m.max() <= 200


def test_a_ues_machine_does_not_depend_on_how_many_others_there_are():
    few, many = fleet_of([4] * 2), fleet_of([4] * 50)
    assert np.array_equal(few.ue_distance_m, many.ue_distance_m[:8])


def test_device_classes_have_their_shares():
    fleet = fleet_of([20_000], cpu_hz=Choice((1e9, 3e9), (1.0, 3.0)))
    assert np.mean(fleet.cpu_hz == 1e9) == pytest.approx(0.25, abs=0.01)


def test_path_loss_of_the_paper_at_ten_metres():
    loss = PathLoss(gain_at_1m_linear=10**-3.6, exponent=2.0)
    assert loss.gain(np.array([10.0])) == pytest.approx(10**-5.6)


def test_rayleigh_power_gain_is_exponential_with_unit_mean():
    gains = FADINGS.get("rayleigh")(Streams(0).at("fading"), 20_000)
    assert stats.kstest(gains, stats.expon().cdf).pvalue > 1e-3
    assert gains.min() > 0


def test_without_fading_gains_are_the_path_loss():
    assert np.all(FADINGS.get("none")(Streams(0).at("fading"), 5) == 1.0)


@settings(deadline=None)
@given(low=st.integers(0, 50), width=st.integers(0, 50), seed=st.integers(0, 100))
def test_whole_numbers_of_a_uniform_include_both_ends(low, width, seed):
    drawn = whole_numbers(Uniform(low, low + width), Streams(seed).at("n").uniform(200))
    assert low <= drawn.min() <= drawn.max() <= low + width
    assert whole_numbers(Uniform(low, low + width), np.array([0.0, 1 - 1e-9])).tolist() == [low, low + width]


@pytest.mark.parametrize(
    "distribution", [Constant(3.0), Uniform(1.0, 4.0), Choice((1.0, 5.0), (1.0, 1.0)), LogNormal(2.0, 0.5)]
)
def test_draws_stay_within_their_declared_bounds(distribution):
    drawn = distribution.quantile(Streams(1).at("d").uniform(10_000))
    assert distribution.lowest <= drawn.min() <= drawn.max() <= distribution.highest
