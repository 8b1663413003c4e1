"""3GPP TR 38.901 path loss: values worked out from Table 7.4.1-1 and 7.4.2-1, and Sionna where it is installed."""

import numpy as np
import pytest

from hpfl.network.sionna_paths import SionnaPathLoss
from hpfl.network.tr38901 import UrbanPathLoss, sight_probability
from hpfl.rng import Streams

UMI = UrbanPathLoss(scenario="umi", carrier_ghz=3.5, base_m=10.0)
UMA = UrbanPathLoss(scenario="uma", carrier_ghz=3.5, base_m=25.0)


def loss(law, ground_m, *, sees):
    return float(law.loss_db(np.array([ground_m]), np.array([sees]))[0])


def test_break_points_are_the_standards():
    assert UMI.break_m == pytest.approx(4 * 9 * 0.5 * 3.5e9 / 3e8)  # 210 m
    assert UMA.break_m == pytest.approx(4 * 24 * 0.5 * 3.5e9 / 3e8)  # 560 m


@pytest.mark.parametrize(
    ("law", "ground_m", "sees", "expected_db"),
    [
        # umi, 100 m: d3D = sqrt(100^2 + 8.5^2) = 100.3606
        (UMI, 100.0, True, 32.4 + 21 * np.log10(100.3606) + 20 * np.log10(3.5)),
        (UMI, 100.0, False, 35.3 * np.log10(100.3606) + 22.4 + 21.3 * np.log10(3.5)),
        # beyond the break point of 210 m: d3D = sqrt(400^2 + 8.5^2) = 400.0903
        (UMI, 400.0, True, 32.4 + 40 * np.log10(400.0903) + 20 * np.log10(3.5) - 9.5 * np.log10(210.0**2 + 8.5**2)),
        # uma, 100 m: d3D = sqrt(100^2 + 23.5^2) = 102.7242
        (UMA, 100.0, True, 28.0 + 22 * np.log10(102.7242) + 20 * np.log10(3.5)),
        (UMA, 100.0, False, 13.54 + 39.08 * np.log10(102.7242) + 20 * np.log10(3.5)),
        (UMA, 1000.0, True, 28 + 40 * np.log10(1000.2761) + 20 * np.log10(3.5) - 9 * np.log10(560.0**2 + 23.5**2)),
    ],
)
def test_path_loss_is_that_of_the_table(law, ground_m, sees, expected_db):
    assert loss(law, ground_m, sees=sees) == pytest.approx(expected_db, abs=1e-4)


def test_numbers_worked_out_once():
    assert loss(UMI, 100.0, sees=True) == pytest.approx(85.3142, abs=1e-4)
    assert loss(UMA, 100.0, sees=False) == pytest.approx(103.0375, abs=1e-4)


@pytest.mark.parametrize("law", [UMI, UMA])
def test_los_loss_is_continuous_at_the_break_point_and_nlos_is_never_less(law):
    before, after = loss(law, law.break_m * (1 - 1e-9), sees=True), loss(law, law.break_m * (1 + 1e-9), sees=True)
    assert before == pytest.approx(after, abs=0.15)  # the standard's own step
    ground_m = np.geomspace(10.0, 5000.0, 60)
    sees = np.ones(60, dtype=bool)
    assert (law.loss_db(ground_m, ~sees) >= law.loss_db(ground_m, sees)).all()


def test_sight_is_certain_near_and_falls_with_distance():
    ground_m = np.array([5.0, 18.0, 36.0, 100.0])
    umi = sight_probability("umi", ground_m)
    assert umi[:2].tolist() == [1.0, 1.0]
    assert umi[2] == pytest.approx(0.5 + np.exp(-1.0) * 0.5)
    assert sight_probability("uma", ground_m)[3] == pytest.approx(0.18 + np.exp(-100 / 63) * 0.82)


def test_links_keep_their_line_of_sight_for_good():
    distance_m, stream = np.full(4000, 50.0), Streams(0).at("path/ue")
    gain = UMI.gain(distance_m, stream)
    assert np.array_equal(gain, UMI.gain(distance_m, stream))
    in_sight = gain == gain.max()
    assert in_sight.mean() == pytest.approx(float(sight_probability("umi", distance_m)[0]), abs=0.03)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("law", [UMI, UMA], ids=["umi", "uma"])
def test_our_path_loss_is_sionnas(law):
    """Sionna computes break points with the exact speed of light, the standard with 3e8 m/s: 0.01 dB apart."""
    pytest.importorskip("sionna.phy")
    theirs = SionnaPathLoss(scenario=law.scenario, carrier_ghz=law.carrier_ghz, base_m=law.base_m)
    ground_m = np.array([10.0, 35.0, 80.0, 150.0, 300.0, 700.0, 2000.0])
    for sees in (np.ones(7, dtype=bool), np.zeros(7, dtype=bool)):
        assert law.loss_db(ground_m, sees) == pytest.approx(theirs.loss_db(ground_m, sees), abs=0.01)
