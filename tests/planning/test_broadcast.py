"""A broadcast: two multicasts, each as slow as its worst hearer and as long as its most backward one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_network import paper_network

from hpfl.network.downlink import Powers
from hpfl.network.latency import rate_bps
from hpfl.planning import ProblemError, RoundProblem, allocate, plan
from hpfl.planning.broadcast import Downlink, broadcast_seconds, broadcast_time, cheapest_step
from hpfl.planning.documents import plan_to_json
from hpfl.planning.multicast import together

BAND_HZ = 5e6
MODEL = 2.5e6
STEP = 1e5


def downlink(seed=0, *, K=6, **changes):
    """A network like the paper's, all of whose receivers hold the current model."""
    problem = paper_network(seed, K=K, ues=4)
    made = Downlink(
        edge_snr_hz=problem.edge_snr_hz,
        cell_snr_hz=problem.ue_snr_hz.reshape(K, 4).min(axis=1),
        edge_bits=np.zeros(K),
        cell_bits=np.zeros(K),
        cell_ues=np.full(K, 4),
        model_bits=MODEL,
        step_bits=(STEP,),
        message_bits=(np.inf,),
    )
    return replace(made, **changes)


def one_link_each(bits, snr_hz, bandwidth_hz):
    """The same cells as a planning problem with one UE under each edge and nothing on the backhaul."""
    K = bits.size
    ones = np.ones(K)
    return RoundProblem(
        bandwidth_hz=bandwidth_hz,
        rho=0.0,
        phi=0.0,
        max_edges=K,
        staleness_bound=1,
        edge_gain=ones,
        edge_power_w=ones,
        edge_noise_w_per_hz=ones,
        edge_bits=np.zeros(K),
        importance=np.zeros(K),
        staleness=np.zeros(K, dtype=np.int64),
        edge_of_ue=np.arange(K),
        ue_gain=snr_hz,
        ue_power_w=ones,
        ue_noise_w_per_hz=ones,
        ue_bits=bits,
        compute_s=np.zeros(K),
    )


everybody = st.lists(st.booleans(), min_size=6, max_size=6).map(np.array)


@settings(deadline=None, max_examples=60)
@given(
    links=st.lists(st.tuples(st.floats(2.0, 8.0), st.floats(2.0, 12.0)), min_size=1, max_size=12),
    band=st.floats(3.0, 9.0),
)
def test_cells_that_share_the_band_take_as_long_as_exact_bandwidth_of_one_link_each(links, band):
    bits, snr_hz = 10.0 ** np.array(links).T
    found = together(bits, snr_hz, 10.0**band)
    exact = allocate(one_link_each(bits, snr_hz, 10.0**band), np.ones(bits.size, dtype=np.bool_))
    assert float(found.seconds) == pytest.approx(exact.round_latency_s, rel=1e-9)
    np.testing.assert_allclose(found.hz, exact.ue_bandwidth_hz, rtol=1e-6)
    assert found.hz.sum() <= 10.0**band


def test_one_cell_has_all_of_the_band():
    known = downlink()
    hears = np.arange(6) == 2
    found = broadcast_time(known, hears, STEP, BAND_HZ)
    band = np.array([BAND_HZ])
    assert found.cloud_s == pytest.approx(STEP / rate_bps(band, known.edge_snr_hz[2:3])[0])
    assert found.cells_s == pytest.approx(STEP / rate_bps(band, known.cell_snr_hz[2:3])[0])
    assert found.cell_hz[2] == pytest.approx(BAND_HZ)
    assert (found.bits, found.hears.tolist()) == (2 * STEP, hears.tolist())


@settings(deadline=None, max_examples=40)
@given(hears=everybody, more=st.integers(0, 5), seed=st.integers(0, 5))
def test_one_more_hearer_never_makes_a_broadcast_shorter(hears, more, seed):
    known = downlink(seed, edge_bits=np.linspace(0, 3e5, 6), cell_bits=np.linspace(5e5, 0, 6))
    wider = hears | (np.arange(6) == more)
    one, other = (broadcast_time(known, who, STEP, BAND_HZ) for who in (hears, wider))
    assert other.seconds >= one.seconds * (1 - 1e-9)
    assert other.bits >= one.bits


def test_many_broadcasts_at_once_are_the_same_to_four_digits():
    draw = np.random.default_rng(1)
    known = downlink(1, edge_bits=draw.random(6) * 3e6, cell_bits=draw.random(6) * 3e6)
    sets, steps = draw.random((40, 6)) < 0.5, draw.random(40) * 3e5
    quick = broadcast_seconds(known, sets, steps, BAND_HZ)
    exact = [broadcast_time(known, who, step, BAND_HZ).seconds for who, step in zip(sets, steps, strict=True)]
    np.testing.assert_allclose(quick, exact, rtol=1e-4)


def test_the_cloud_sends_what_the_most_backward_edge_lacks_and_cells_what_their_ues_do():
    lacks = np.array([0.0, 2e5, 4e5, 0.0, 0.0, 0.0])
    known = downlink(edge_bits=lacks, cell_bits=lacks)
    found = broadcast_time(known, np.arange(6) < 3, STEP, BAND_HZ)
    assert found.cloud_bits == 4e5 + STEP
    assert found.cell_bits.tolist() == [STEP, 2e5 + STEP, 4e5 + STEP, 0, 0, 0]
    assert not found.whole.any()


def test_an_edge_that_needs_the_whole_model_does_not_take_the_steps_from_the_others():
    lacks = np.array([0.0, MODEL, 0.0, 0.0, 0.0, 0.0])
    found = broadcast_time(downlink(edge_bits=lacks, cell_bits=0 * lacks), np.arange(6) < 3, STEP, BAND_HZ)
    assert found.cloud_bits == MODEL + STEP
    assert found.whole.tolist() == [False, True, False, False, False, False]
    assert found.cell_bits[:3].tolist() == [STEP, MODEL, STEP]  # an edge that has no steps hands on the model


def test_nobody_waits_for_an_edge_without_ues():
    known = downlink()
    alone = replace(
        known,
        edge_snr_hz=np.where(np.arange(6) == 3, 1e-9, known.edge_snr_hz),
        cell_snr_hz=np.where(np.arange(6) == 3, np.inf, known.cell_snr_hz),
        edge_bits=np.where(np.arange(6) == 3, MODEL, 0.0),
        cell_ues=np.where(np.arange(6) == 3, 0, 4),
    )
    whole = np.ones(6, dtype=np.bool_)
    found, without = (broadcast_time(alone, who, STEP, BAND_HZ) for who in (whole, np.arange(6) != 3))
    assert found.seconds == without.seconds
    assert not found.hears[3]


def test_a_step_of_nothing_takes_nothing_of_those_who_lack_nothing():
    known = downlink()
    found = broadcast_time(known, np.ones(6, dtype=np.bool_), 0.0, BAND_HZ)
    assert (found.seconds, found.bits, found.joules) == (0.0, 0.0, 0.0)
    assert broadcast_time(known, np.zeros(6, dtype=np.bool_), STEP, BAND_HZ).seconds == 0.0


def test_where_the_one_edge_is_the_cloud_only_its_cell_is_on_the_air():
    known = downlink(K=1, backhaul=False)
    found = broadcast_time(known, np.ones(1, dtype=np.bool_), STEP, BAND_HZ)
    assert (found.cloud_s, found.cloud_bits, found.bits) == (0.0, 0.0, STEP)


def test_joules_are_those_of_both_hops_and_of_everybody_that_listens():
    powers = Powers(cloud_w=1.0, edge_w=2.0, ue_receive_w=3.0, edge_receive_w=4.0)
    found = broadcast_time(downlink(powers=powers), np.arange(6) < 2, STEP, BAND_HZ)
    servers = found.cloud_s * (1.0 + 2 * 4.0) + found.cells_s * 2 * 2.0
    assert found.servers_j == pytest.approx(servers)
    assert found.joules == pytest.approx(servers + found.cells_s * 3.0 * 8)


def test_messages_are_forwarded_where_that_is_no_more_than_coding_anew():
    assert cheapest_step(0, 50.0, 50.0, 1e6) == 0.0
    assert cheapest_step(1, 50.0, 50.0, 1e6) == 82.0
    assert cheapest_step(2, 50.0, 50.0, 1e6) == 50.0
    assert cheapest_step(2, 50.0, 10.0, 1e6) == 84.0
    assert cheapest_step(1, 50.0, np.inf, 1e6) == 50.0
    assert cheapest_step(3, 1e9, np.inf, 1e6) == 1e6


def test_a_downlink_is_cut_to_the_edges_of_its_problem():
    known = downlink(3)
    problem = replace(paper_network(3, K=6, ues=4), downlink=known, trusted=True)
    cut = problem.of_edges(np.array([4, 1]))
    assert cut.downlink.edge_snr_hz.tolist() == known.edge_snr_hz[[4, 1]].tolist()
    assert cut.downlink.cell_ues.tolist() == [4, 4]


def document(**changes):
    """A round of two edges as JSON says it, with a way down."""
    ue = {"gain": 1e-7, "power_w": 0.01, "compute_s": 0.0}
    edge = {"gain": 1e-9, "power_w": 0.01, "importance": 1.0}
    return {
        "bandwidth_hz": 5e6,
        "noise_w_per_hz": 4e-21,
        "model_bits": 1e6,
        "rho": 0.8,
        "phi": 1.0,
        "max_edges": 1,
        "staleness_bound": 5,
        "edges": [
            {**edge, "down_bits": 3e5, "ues": [ue, {**ue, "gain": 1e-8, "down_bits": 4e5}]},
            {**edge, "importance": 9.0, "ues": [ue]},
        ],
        "downlink": {"cloud_power_w": 0.1, "step_bits": 5e4},
    } | changes


def test_a_document_may_say_what_the_way_down_is_like():
    problem = RoundProblem.from_json(document())
    known = problem.downlink
    assert known.edge_snr_hz == pytest.approx([0.1 * 1e-9 / 4e-21] * 2)
    assert known.cell_snr_hz == pytest.approx([0.01 * 1e-8 / 4e-21, 0.01 * 1e-7 / 4e-21])
    assert (known.edge_bits.tolist(), known.cell_bits.tolist()) == ([3e5, 0.0], [4e5, 0.0])
    assert (known.cell_ues.tolist(), known.step_bits, known.model_bits) == ([2, 1], (5e4,), 1e6)
    made = plan(problem, "full", certify=False)
    everybody = np.ones(2, dtype=np.bool_)
    assert made.broadcast_s == broadcast_time(known, everybody, 5e4, 5e6).seconds > 0
    assert plan_to_json(problem, made, 0.0)["phases_s"]["broadcast"] == made.broadcast_s
    assert RoundProblem.from_json(document(downlink={})).downlink.step_bits == (1e6,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"downlink": 3}, "downlink is 3; an object was wanted"),
        ({"downlink": {"power": 1}}, "downlink.power is unknown; downlink may have cloud_power_w"),
        ({"downlink": {"cloud_power_w": 0}}, "downlink.cloud_power_w is 0; a transmit power in W must be positive"),
        ({"downlink": {"step_bits": -1}}, "downlink.step_bits is -1"),
        ({"downlink": None}, r"edges\[0\].down_bits is given; that needs a downlink"),
    ],
)
def test_faults_of_a_documents_way_down_are_named(changes, said):
    with pytest.raises(ProblemError, match=said):
        RoundProblem.from_json(document(**changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edge_snr_hz": np.zeros(6)}, r"downlink.edge_snr_hz\[0\] is 0.0; a signal over noise density in Hz"),
        ({"cell_bits": np.zeros(5)}, r"downlink.cell_bits has the shape \(5,\)"),
        ({"cell_ues": np.full(6, 0.5)}, r"downlink.cell_ues\[0\] is 0.5"),
        ({"model_bits": -1.0}, "downlink.model_bits is -1.0"),
        ({"step_bits": ()}, "downlink.step_bits and message_bits have 0 and 1 entries"),
    ],
)
def test_faults_of_arrays_are_named(changes, said):
    with pytest.raises(ProblemError, match=said):
        replace(paper_network(0, K=6, ues=4), downlink=downlink(**changes))
