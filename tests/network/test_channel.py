"""The channel's seam: places with coordinates, a channel that reads them, and what a radio refuses."""

import numpy as np
import pytest
from network_shadowing import Shadowed

from hpfl.network.channel import CHANNELS, ChannelSettings, Gains
from hpfl.network.distributions import Constant, Uniform
from hpfl.network.path_losses import PathLoss
from hpfl.network.places import Places, Positions, places_at_rest
from hpfl.network.radio import ChannelError, Radio
from hpfl.network.topology import FleetSpec, make_fleet
from hpfl.rng import Streams

PATHS = ChannelSettings(
    ue_path=PathLoss(gain_at_1m_linear=10**-3.6, exponent=2.0), edge_path=PathLoss(gain_at_1m_linear=1e-4, exponent=2.0)
)
SHADOWED = "network_shadowing:shadowed"


def fleet_of(ues_per_edge, seed=0):
    one = Constant(1.0)
    spec = FleetSpec(
        ues_per_edge=np.asarray(ues_per_edge),
        **dict.fromkeys(("cpu_hz", "cycles_per_bit", "ue_power_w", "edge_power_w"), one),
        ue_distance_m=Uniform(2.0, 50.0),
        edge_distance_m=Uniform(50.0, 200.0),
    )
    return make_fleet(spec, np.ones(sum(ues_per_edge), dtype=np.int64), Streams(seed))


def test_machines_at_rest_stand_at_their_distances():
    fleet = fleet_of([3, 1, 5])
    places = places_at_rest(fleet, Streams(0))
    away = places.ue_xy_m - places.edge_xy_m[places.edge_of_ue]
    np.testing.assert_allclose(np.hypot(*away.T), fleet.ue_distance_m, rtol=1e-12)
    np.testing.assert_allclose(np.hypot(*places.edge_xy_m.T), fleet.edge_distance_m, rtol=1e-12)
    assert places.edge_of_ue.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 2]


def test_distances_of_known_coordinates_are_at_least_a_metre():
    positions = Positions(np.array([[30.0, 40.0]]), np.array([[30.0, 40.1], [33.0, 44.0]]), np.array([0, 0]))
    places = Places.at(positions)
    assert places.edge_distance_m.tolist() == [50.0]
    assert places.ue_distance_m.tolist() == [1.0, 5.0]
    assert (places.num_ues, places.num_edges) == (2, 1)


def test_coordinates_are_made_for_those_who_ask():
    made = []
    positions = Positions(np.array([[50.0, 0.0]]), np.array([[60.0, 0.0]]), np.array([0]))
    places = Places(
        ue_distance_m=np.array([10.0]), edge_distance_m=np.array([50.0]), find=lambda: made.append(1) or positions
    )
    CHANNELS.get("path-loss-and-fading")(PATHS).gains(0, places, Streams(0))
    assert not made
    CHANNELS.get(SHADOWED)(PATHS).gains(0, places, Streams(0))
    assert places.edge_of_ue.tolist() == [0]
    assert len(made) == 1


def correlation(distance_m, *, seeds=300, pairs=20):
    """Of the shadowing at two places `distance_m` apart, over many draws of it: the mean, and its standard error."""
    here = Streams(1).at("places").uniform(2 * pairs).reshape(pairs, 2) * 1e4
    turn = 2 * np.pi * Streams(1).at("turn").uniform(pairs)
    there = here + distance_m * np.column_stack([np.cos(turn), np.sin(turn)])
    edge = np.array([[0.0, 0.0]])
    places = Places.at(Positions(edge, np.concatenate([here, there]), np.zeros(2 * pairs, dtype=np.int64)))
    mean_gain = PATHS.ue_path.gain(places.ue_distance_m)
    channel: Shadowed = CHANNELS.get(SHADOWED, deviation_db=6.0, correlation_m=50.0)(PATHS)
    found = np.empty(seeds)
    for seed in range(seeds):
        shadow = 10 * np.log10(channel.gains(0, places, Streams(seed)).ue / mean_gain) / 6.0
        found[seed] = (shadow[:pairs] * shadow[pairs:]).mean()
    return found.mean(), found.std() / np.sqrt(seeds)


@pytest.mark.parametrize("distance_m", [0.0, 10.0, 50.0, 150.0])
def test_a_channel_from_outside_shadows_near_places_alike(distance_m):
    mean, error = correlation(distance_m)
    assert error < 0.02
    assert mean == pytest.approx(np.exp(-distance_m / 50.0), abs=4 * error)


def test_a_shadow_stays_while_fades_come_and_go():
    channel = CHANNELS.get(SHADOWED, fading="rayleigh")(PATHS)
    places = places_at_rest(fleet_of([4, 4]), Streams(0))
    bare = CHANNELS.get("path-loss-and-fading")(PATHS)
    shadow = [
        channel.gains(block, places, Streams(0)).ue / bare.gains(block, places, Streams(0)).ue for block in (0, 7)
    ]
    np.testing.assert_allclose(shadow[0], shadow[1], rtol=1e-12)
    assert np.ptp(np.log(shadow[0])) > 0.1


@pytest.mark.parametrize(
    ("ue", "said"),
    [
        ([1e-7, np.nan], "the channel gave UE 1 the gain nan; wanted a positive, finite number"),
        ([0.0, 1e-7], "the channel gave UE 0 the gain 0.0; wanted a positive, finite number"),
        ([1e-7, np.inf], "the channel gave UE 1 the gain inf"),
        ([1e-7], r"the channel gave UE gains of shape \(1,\); there are 2 links"),
    ],
)
def test_gains_that_no_radio_can_have_are_refused(ue, said):
    class Broken:
        def gains(self, block, places, streams):
            return Gains(ue=np.array(ue), edge=np.ones(1))

    radio = Radio(channel=Broken(), noise_w_per_hz=4e-21)
    with pytest.raises(ChannelError, match=said):
        radio.gains(radio.moment(0, 0.0), places_at_rest(fleet_of([2]), Streams(0)), Streams(0), members=np.arange(2))
