"""What a channel is told of places in a simulated run: for good, or as far as the UEs have walked."""

from dataclasses import replace

import numpy as np
from simulation_worlds import make_world

from hpfl.network.mobility import RandomWaypoint
from hpfl.network.places import places_at_rest
from hpfl.network.sampling import Sampling
from hpfl.rng import Streams
from hpfl.simulation.roster import Life
from hpfl.training.loop import play_round


class Watching:
    """A channel that keeps the places it was asked about."""

    def __init__(self, channel):
        self.channel, self.seen = channel, []

    def gains(self, block, places, streams):
        self.seen.append(places)
        return self.channel.gains(block, places, streams)


def walking(fleet, streams):
    mobility = RandomWaypoint.around(fleet, (20.0, 200.0), streams)
    return Life(fleet=fleet, streams=streams, sampling=Sampling(), mobility=mobility)


def watched(**settings):
    world = make_world(**settings)
    channel = Watching(world.executor.radio.channel)
    executor = replace(world.executor, radio=replace(world.executor.radio, channel=channel))
    return world, replace(world.parts, executor=executor), channel


def test_a_channel_sees_the_places_of_the_walk():
    """In every fade of a round those at its beginning; each UE at its distance from the edge that is nearest."""
    world, parts, channel = watched(life=walking, loses_ues=True, coherence_s=0.05)
    state, edges = world.state, []
    for _ in range(12):
        channel.seen.clear()
        state, _ = play_round(state, parts, world.settings)
        assert len(channel.seen) > 1
        for places in channel.seen:
            np.testing.assert_array_equal(places.ue_xy_m.T, [state.clock["walk/x_m"], state.clock["walk/y_m"]])
            apart_m = np.linalg.norm(places.ue_xy_m[:, None] - places.edge_xy_m[None], axis=2)
            np.testing.assert_array_equal(places.edge_of_ue, apart_m.argmin(axis=1))
            np.testing.assert_allclose(places.ue_distance_m, np.maximum(apart_m.min(axis=1), 1.0), rtol=1e-12)
        edges.append(places.edge_of_ue)
    assert (np.ptp(edges, axis=0) > 0).any(), "nobody changed edges"


def test_a_walk_begins_where_machines_at_rest_stand():
    seed = 3
    moving, standing = watched(seed=seed, life=walking, loses_ues=True), watched(seed=seed)
    for world, parts, _ in (moving, standing):
        play_round(world.state, parts, world.settings)
    first, rest = moving[2].seen[0], standing[2].seen[0]
    np.testing.assert_array_equal(first.ue_xy_m, rest.ue_xy_m)
    np.testing.assert_array_equal(first.edge_xy_m, rest.edge_xy_m)
    np.testing.assert_array_equal(rest.ue_xy_m, places_at_rest(standing[0].executor.fleet, Streams(seed)).ue_xy_m)


def test_machines_at_rest_are_placed_once_and_only_if_a_channel_asks():
    world, parts, channel = watched(coherence_s=0.05)
    state, _ = play_round(world.state, parts, world.settings)
    play_round(state, parts, world.settings)
    assert len({id(places) for places in channel.seen}) == 1
    assert "positions" not in vars(channel.seen[0])
