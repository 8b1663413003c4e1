"""The law of every channel, path loss and fading: positive and finite, a member's own, and repeated by its address."""

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.network.channel import CHANNELS, FADINGS, Channel, ChannelSettings
from hpfl.network.path_losses import PATH_LOSSES, PathGain, PathLoss, Site
from hpfl.network.places import Places, Positions
from hpfl.rng import Streams

PATHS = ChannelSettings(
    ue_path=PathLoss(gain_at_1m_linear=10**-3.6, exponent=2.0), edge_path=PathLoss(gain_at_1m_linear=1e-4, exponent=2.0)
)
HOPS = (
    Site(gain_db=-36.0, exponent=2.0, carrier_ghz=3.5, terminal_m=1.5),
    Site(gain_db=-40.0, exponent=3.5, carrier_ghz=28.0, terminal_m=10.0),
)
seeds, blocks = st.integers(0, 2**40), st.integers(0, 10**9)

channels = pytest.mark.parametrize("name", CHANNELS.names())
fadings = pytest.mark.parametrize("name", FADINGS.names())
path_losses = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.skipif("sionna" in name and not find_spec("sionna"), reason="no Sionna"))
        for name in PATH_LOSSES.names()
    ],
)


def made(name: str) -> Channel:
    return CHANNELS.get(name)(PATHS)


def places_of(seed: int, *, moved_m: float = 0.0) -> Places:
    """Four edges of five UEs each; `moved_m` is how far those of the last two edges have gone."""
    edge_xy_m = 400.0 * Streams(seed).at("edges").uniform(8).reshape(4, 2) - 200.0
    ue_xy_m = np.repeat(edge_xy_m, 5, axis=0) + 80.0 * Streams(seed).at("ues").uniform(40).reshape(20, 2) - 40.0
    edge_xy_m[2:] += moved_m
    ue_xy_m[10:] -= moved_m
    return Places.at(Positions(edge_xy_m, ue_xy_m, np.repeat(np.arange(4), 5)))


def first_two_edges(places: Places) -> Places:
    return Places.at(Positions(places.edge_xy_m[:2], places.ue_xy_m[:10], places.edge_of_ue[:10]))


@channels
@settings(max_examples=25, deadline=None)
@given(seed=seeds, block=blocks)
def test_a_channels_gains_are_positive_and_finite_one_per_link(name: str, seed: int, block: int) -> None:
    gains = made(name).gains(block, places_of(seed), Streams(seed))
    for gain, count in ((gains.ue, 20), (gains.edge, 4)):
        assert gain.shape == (count,)
        assert gain.dtype == np.float64
        assert ((gain > 0) & np.isfinite(gain)).all()


@channels
@settings(max_examples=25, deadline=None)
@given(seed=seeds, block=blocks, moved_m=st.floats(-100.0, 100.0))
def test_a_links_gain_is_the_same_whatever_the_others_do(name: str, seed: int, block: int, moved_m: float) -> None:
    everyone = made(name).gains(block, places_of(seed), Streams(seed))
    alone = made(name).gains(block, first_two_edges(places_of(seed)), Streams(seed))
    others_gone = made(name).gains(block, places_of(seed, moved_m=moved_m), Streams(seed))
    for few in (alone, others_gone):
        np.testing.assert_allclose(few.ue[:10], everyone.ue[:10], rtol=1e-14)
        np.testing.assert_allclose(few.edge[:2], everyone.edge[:2], rtol=1e-14)


@channels
@settings(max_examples=25, deadline=None)
@given(seed=seeds, block=blocks)
def test_a_channel_repeats_itself_by_seed_and_block(name: str, seed: int, block: int) -> None:
    channel, places = made(name), places_of(seed)
    first = channel.gains(block, places, Streams(seed))
    channel.gains(block + 1, places, Streams(seed))
    channel.gains(block, places, Streams(seed + 1))
    for again in (channel.gains(block, places, Streams(seed)), made(name).gains(block, places, Streams(seed))):
        np.testing.assert_array_equal(again.ue, first.ue)
        np.testing.assert_array_equal(again.edge, first.edge)


@path_losses
@pytest.mark.parametrize("site", HOPS)
@settings(max_examples=25, deadline=None)
@given(seed=seeds, distances=st.lists(st.floats(1.0, 5000.0), min_size=1, max_size=20), few=st.integers(1, 20))
def test_a_path_loss_is_a_links_own_positive_and_the_same_for_good(
    name: str, site: Site, seed: int, distances: list[float], few: int
) -> None:
    path: PathGain = PATH_LOSSES.get(name)(site)
    distance_m, stream = np.array(distances), Streams(seed).at("path/ue")
    gain = path.gain(distance_m, stream)
    assert gain.shape == distance_m.shape
    assert ((gain > 0) & np.isfinite(gain)).all()
    np.testing.assert_array_equal(path.gain(distance_m, stream), gain)
    np.testing.assert_allclose(path.gain(distance_m[:few], stream), gain[:few], rtol=1e-12)


@path_losses
@pytest.mark.parametrize("site", HOPS)
def test_a_path_loss_takes_more_of_links_ten_times_as_long(name: str, site: Site) -> None:
    path, near_m = PATH_LOSSES.get(name)(site), np.full(500, 40.0)
    near, far = (path.gain(distance_m, Streams(0).at("path/ue")) for distance_m in (near_m, 10 * near_m))
    assert (far < near).all()


@fadings
@settings(max_examples=25, deadline=None)
@given(seed=seeds, block=blocks, count=st.integers(1, 50), few=st.integers(1, 50))
def test_a_fade_is_a_links_own_positive_and_repeated(name: str, seed: int, block: int, count: int, few: int) -> None:
    fading, stream = FADINGS.get(name), Streams(seed).at("fading/ue", block)
    factor = fading(stream, count)
    assert factor.shape == (count,)
    assert ((factor > 0) & np.isfinite(factor)).all()
    np.testing.assert_array_equal(fading(stream, count), factor)
    np.testing.assert_allclose(fading(stream, count + few)[:count], factor, rtol=1e-14)


@fadings
def test_fading_neither_adds_nor_takes_power_on_average(name: str) -> None:
    factor = FADINGS.get(name)(Streams(0).at("fading/ue"), 100_000)
    assert factor.mean() == pytest.approx(1.0, abs=max(5 * factor.std() / np.sqrt(factor.size), 1e-12))
