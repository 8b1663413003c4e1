"""Cells that send over the same band at a time: groups, interference by place, the shortest common time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.planning.multicast import together
from hpfl.planning.shared_cells import SharedCells, groups_of, shared

BAND_HZ = 1e6
CLOSE = 1e-12


def cells(seed=0, *, K=6, ues=3, reuse=2, cross=1e5):
    """K cells of a few UEs; every other edge adds about `cross` Hz of noise, by a table."""
    draw = np.random.default_rng(seed)
    others = cross * draw.random((K, K * ues))
    return SharedCells(
        reuse=reuse,
        edge_of=np.repeat(np.arange(K), ues),
        snr_hz=10.0 ** draw.uniform(6, 9, K * ues),
        angle=draw.uniform(-np.pi, np.pi, K),
        cross_hz=lambda edge: others[edge],
    )


def rate(found, made, edges, edge):
    """The rate of the worst UE of a cell in bit/s, from the definition."""
    group = groups_of(edges, made.angle, made.reuse)
    mates = edges[(group == group[edges == edge]) & (edges != edge)]
    own = np.flatnonzero(made.edge_of == edge)
    others = sum((made.cross_hz(mate)[own] for mate in mates), np.zeros(own.size))
    hz = found.hz[edges == edge]
    return (hz * np.log2(1 + made.snr_hz[own] / (hz + others))).min()


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    reuse=st.integers(2, 6),
    cross=st.sampled_from([0.0, 1e2, 1e5, 1e8]),
    who=st.sets(st.integers(0, 5), min_size=1),
)
def test_every_worst_ue_has_heard_all_in_time_and_some_cell_of_each_group_just_so(seed, reuse, cross, who):
    made, edges = cells(seed, reuse=reuse, cross=cross), np.array(sorted(who))
    bits = np.random.default_rng(seed).uniform(1e4, 1e6, edges.size)
    found = shared(made, edges, bits, BAND_HZ, close=CLOSE)
    group = groups_of(edges, made.angle, reuse)
    need_s = np.array([bits[edges == edge][0] / rate(found, made, edges, edge) for edge in edges])
    assert need_s.max() <= float(found.seconds) * (1 + 1e-9)
    tight = [need_s[group == one].max() for one in np.unique(group)]
    np.testing.assert_allclose(tight, float(found.seconds), rtol=1e-6)
    total = sum(found.hz[group == one].max() for one in np.unique(group))
    assert total == pytest.approx(BAND_HZ, rel=1e-6)


def test_groups_are_as_few_as_can_be_and_their_cells_lie_apart():
    angle = np.array([0.1, 3.0, 0.2, 3.1, 0.3, 2.9])
    group = groups_of(np.arange(6), angle, 2)
    assert np.bincount(group).tolist() == [2, 2, 2]
    for one in range(3):
        first, second = angle[group == one]
        assert abs(first - second) > 2.0
    assert groups_of(np.arange(5), angle, 5).tolist() == [0] * 5
    assert sorted(groups_of(np.arange(5), angle, 1).tolist()) == [0, 1, 2, 3, 4]


def test_a_cell_alone_in_its_group_is_one_link_of_the_orthogonal_split():
    made, edges = cells(1, reuse=1), np.arange(6)
    bits = np.full(6, 3e5)
    worst_hz = made.snr_hz.reshape(6, 3).min(axis=1)
    found, plain = shared(made, edges, bits, BAND_HZ, close=CLOSE), together(bits, worst_hz, BAND_HZ)
    assert float(found.seconds) == pytest.approx(float(plain.seconds), rel=1e-9)
    np.testing.assert_allclose(found.hz, plain.hz, rtol=1e-6)


def test_sharing_pays_where_cells_are_far_apart_and_not_where_they_lie_upon_each_other():
    edges, bits = np.arange(6), np.full(6, 3e5)
    seconds = {
        cross: [
            float(shared(cells(2, reuse=reuse, cross=cross), edges, bits, BAND_HZ, close=CLOSE).seconds)
            for reuse in (1, 2, 6)
        ]
        for cross in (1.0, 1e10)
    }
    assert seconds[1.0][0] > seconds[1.0][1] > seconds[1.0][2]
    assert seconds[1e10][0] < seconds[1e10][1] < seconds[1e10][2]


def test_silent_cells_disturb_nobody():
    made, edges = cells(3, reuse=2), np.arange(6)
    bits = np.where(np.arange(6) % 2, 2e5, 0.0)
    found = shared(made, edges, bits, BAND_HZ, close=CLOSE)
    alone = shared(made, edges[1::2], bits[1::2], BAND_HZ, close=CLOSE)
    assert found.seconds == alone.seconds
    assert not found.hz[::2].any()
    assert float(shared(made, edges, np.zeros(6), BAND_HZ, close=CLOSE).seconds) == 0.0
