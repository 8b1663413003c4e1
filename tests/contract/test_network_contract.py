"""The law of every path loss, fading and channel: gains are positive, repeat, and are a link's own."""

import numpy as np
import pytest

from hpfl.network.channel import CHANNELS, FADINGS
from hpfl.network.path_losses import PATH_LOSSES, Site
from hpfl.network.sionna_paths import SionnaUnavailableError
from hpfl.rng import Streams

SITE = Site(gain_db=-36.0, exponent=2.0, carrier_ghz=3.5, terminal_m=1.5)
DISTANCES_M = np.geomspace(2.0, 2000.0, 60)


def stream():
    return Streams(7).at("links")


@pytest.fixture(params=PATH_LOSSES.names())
def path(request):
    try:
        return PATH_LOSSES.get(request.param)(SITE)
    except SionnaUnavailableError:
        pytest.skip("sionna is not installed")


def test_a_gain_is_positive_and_no_link_amplifies(path):
    gains = path.gain(DISTANCES_M, stream())
    assert gains.shape == DISTANCES_M.shape
    assert ((gains > 0) & (gains < 1)).all()


def test_far_links_are_weaker_by_far(path):
    near, far = (path.gain(np.full(200, metres), stream()) for metres in (20.0, 2000.0))
    assert far.mean() < 0.1 * near.mean()


def test_gains_repeat_and_do_not_depend_on_links_that_come_after(path):
    gains = path.gain(DISTANCES_M, stream())
    np.testing.assert_array_equal(gains, path.gain(DISTANCES_M, stream()))
    np.testing.assert_array_equal(gains[:9], path.gain(DISTANCES_M[:9], stream()))


@pytest.mark.parametrize("name", FADINGS.names())
def test_fading_is_positive_repeats_and_keeps_the_mean_power(name):
    fade = FADINGS.get(name)(stream(), 20_000)
    assert (fade > 0).all()
    assert fade.mean() == pytest.approx(1.0, abs=0.05)
    np.testing.assert_array_equal(fade, FADINGS.get(name)(stream(), 20_000))


@pytest.mark.parametrize("name", CHANNELS.names())
def test_a_channel_takes_the_fadings_there_are(name):
    for fading in FADINGS.names():
        assert CHANNELS.get(name, fading=fading)() is FADINGS.get(fading)
    with pytest.raises(ValueError, match="no fading is called 'rician'; there are rayleigh, none"):
        CHANNELS.get(name, fading="rician")
