import statistics

import pytest
from deployment_nodes import Nodes
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.deployment import real_executor
from hpfl.deployment.orders import order_of
from hpfl.deployment.pacing import piece_bytes
from hpfl.learning.models import mlp


@settings(deadline=None, max_examples=100)
@given(nbytes=st.integers(1, 10**8), seconds=st.floats(0, 1e4))
def test_pieces_are_never_above_a_megabyte_nor_needlessly_small_nor_long_in_coming(nbytes, seconds):
    size = piece_bytes(nbytes, seconds, silent_s=2.0)
    byte_s = seconds / nbytes
    assert 1 <= size <= 2**20
    assert size == 1 or size * byte_s <= 0.5 + 1e-9
    assert size >= min(16 * 1024, nbytes) or (size + 1) * byte_s > 0.5 - 1e-9


SLOW = pytest.mark.slow  # what is bounded from above depends on what else the machine does


@pytest.mark.parametrize(
    ("edge_rounds", "most"), [(1, float("inf")), (2, float("inf")), pytest.param(1, 1.15, marks=SLOW)]
)
def test_measured_latency_follows_the_plan(certificates, edge_rounds, most):
    """Never faster than planned; how little slower is the bar of 1.15 on a machine with nothing else to do."""
    rounds = f"training.edge_rounds={edge_rounds}"
    with Nodes(certificates, "training.rounds=6", rounds, tiny=True, paced=True) as nodes:
        nodes.start_all()
        nodes.play()
        timings = nodes.deployment.executor.timings
    ratios = [timing.measured_s / timing.planned_s for timing in timings]
    assert 0.9 <= statistics.median(ratios) <= most
    assert all(timing.planned_s > 0.1 for timing in timings)
    last = timings[-1]
    assert set(last.ue_measured_s) == {0, 1, 2, 3}
    assert set(last.edge_measured_s) == {0, 1}


@pytest.mark.parametrize(
    ("changes", "scale", "most"),
    [
        ([], 1.0, float("inf")),
        pytest.param([], 1.0, 1.15, marks=SLOW),
        pytest.param(["learning.uplink=ternary", "network.downlink=charged"], 30.0, 1.15, marks=SLOW),
    ],
)
def test_measured_latency_follows_a_plan_that_shares_the_band_anew_in_each_phase(certificates, changes, scale, most):
    """Coded updates are planned to take milliseconds, less than nodes need to tell each other: time is stretched."""
    with Nodes(certificates, "network.spectrum=phased", *changes, tiny=True, paced=True, time_scale=scale) as nodes:
        nodes.start_all()
        nodes.play()
        timings = nodes.deployment.executor.timings
    assert 0.9 <= statistics.median(timing.measured_s / timing.planned_s for timing in timings) <= most


def test_an_edge_whose_ues_are_through_does_not_send_before_its_switch(certificates, monkeypatch):
    def delayed(*of):
        tag, order = order_of(*of)
        order.switch_s += 0.6
        return tag, order

    monkeypatch.setattr(real_executor, "order_of", delayed)
    changes = ("network.spectrum=phased", "training.rounds=1")
    with Nodes(certificates, *changes, tiny=True, paced=True) as nodes:
        nodes.start_all()
        nodes.play()
        (timing,) = nodes.deployment.executor.timings
    assert timing.measured_s >= timing.planned_s + 0.55


@SLOW
def test_without_pacing_a_round_takes_what_the_links_take(certificates):
    with Nodes(certificates, "training.rounds=4", tiny=True, paced=False) as nodes:
        nodes.start_all()
        nodes.play()
        timings = nodes.deployment.executor.timings
    assert statistics.median(timing.measured_s / timing.planned_s for timing in timings) < 0.7


@SLOW
def test_time_can_be_scaled(certificates):
    with Nodes(certificates, "training.rounds=4", tiny=True, paced=True, time_scale=0.5) as nodes:
        nodes.start_all()
        nodes.play()
        ratios = [t.measured_s / t.planned_s for t in nodes.deployment.executor.timings]
    assert 0.9 <= statistics.median(ratios) <= 2.0


def narrow(input_shape, num_outputs):
    """784-10-10."""
    return mlp(input_shape, num_outputs, hidden=(10,))


def test_an_update_that_is_planned_to_trickle_in_is_not_taken_for_one_that_has_stopped(certificates, lines):
    """32 kB in 2 s: pieces of 16 kB would come 1 s apart, and silence ends a stream after 0.5 s."""
    shape = ("network.edges=1", "planning.max_edges=1", "training.rounds=1", "learning.model=test_pacing:narrow")
    with Nodes(certificates, *shape, tiny=True, paced=True, limits={"idle_s": 0.5}) as nodes:
        nodes.start_cloud()
        nodes.start_edge(0)
        for ue in range(2):
            nodes.start_ue(ue)

        def slow(*of):
            tag, order = order_of(*of)
            order.ue_upload_s[:] = [2.0, 2.0]
            order.deadline_s, order.phase_deadline_s, order.upload_s = 60.0, 50.0, 2.0
            return tag, order

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(real_executor, "order_of", slow)
            patch.setattr(real_executor, "deadline_s", lambda *of, **more: 60.0)
            nodes.play()
        assert nodes.record.num_participants == 2
        assert "late" not in {line["code"] for line in lines("refused")}
        assert max(nodes.deployment.executor.timings[-1].ue_measured_s.values()) >= 1.9
