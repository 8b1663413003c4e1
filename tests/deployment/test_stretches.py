"""The timeline of a real round: one stretch after the other for every edge that was there."""

import itertools

import pytest
from deployment_nodes import Nodes

from hpfl.reporting.timeline import INSTANTS, TimelineFile, read_timeline


def played(certificates, folder, *overrides, **cloud):
    timeline = TimelineFile(folder)
    with Nodes(certificates, *overrides, tiny=True, **cloud) as nodes:
        nodes.start_all()
        nodes.play(watch=lambda state, record: timeline.append(record.phases) or True)
        ended_s = nodes.state.time_s
    timeline.close()
    return read_timeline(folder), ended_s


@pytest.mark.parametrize("paced", [False, True])
def test_stretches_of_an_edge_cover_the_run_without_gaps(certificates, tmp_path, paced):
    rows, ended_s = played(certificates, tmp_path, paced=paced, time_scale=0.5)
    for edge in (0, 1):
        mine = [row for row in rows if row["edge"] == edge and row["phase"] not in INSTANTS]
        assert mine[0]["start_s"] == 0.0
        assert mine[-1]["end_s"] == pytest.approx(ended_s)
        for one, other in itertools.pairwise(mine):
            assert one["end_s"] == pytest.approx(other["start_s"])
        assert {"edge_upload", "backhaul"} <= {row["phase"] for row in mine}
    aggregated = [(row["round"], row["edge"]) for row in rows if row["phase"] == "aggregated"]
    assert sorted(aggregated) == [(number, edge) for number in (1, 2, 3) for edge in (0, 1)]


def test_an_edge_that_is_not_called_waits(certificates, tmp_path):
    script = ("planning.planner=scripted", "planning.script=[[0]]")
    rows, _ = played(certificates, tmp_path, *script, "training.rounds=2")
    phases = {row["phase"] for row in rows if row["edge"] == 1 and row["round"] == 1}
    assert "waiting" in phases
    assert not phases & {"edge_upload", "backhaul", "aggregated"}


def uplink_bits(certificates, *overrides):
    """Of each round: all bits, and those of the timeline; with the bits of one model."""
    found = []

    def watch(state, record):
        found.append((record.uplink_bits, float(record.phases.bits.sum())))
        return True

    with Nodes(certificates, *overrides, "training.rounds=2", tiny=True) as nodes:
        nodes.start_all()
        nodes.play(watch=watch)
        return found, 8.0 * nodes.experiment.spec.nbytes


def test_bits_of_sketches_count_in_the_round_they_were_sent_in(certificates):
    """Edge 1 is never called: it sends its sketches, of 64 float64 each, in the first round alone."""
    found, model_bits = uplink_bits(certificates, "planning.planner=scripted", "planning.script=[[0]]")
    sketch_bits = 64 * 64
    assert found == [
        (3 * model_bits + 6 * sketch_bits, 3 * model_bits),
        (3 * model_bits + 3 * sketch_bits, 3 * model_bits),
    ]


def test_bits_of_uploads_are_of_all_edge_rounds_and_of_no_backhaul_that_is_not_there(certificates):
    one_edge = ("network.edges=1", "planning.max_edges=1", "network.backhaul=false", "training.edge_rounds=3")
    found, model_bits = uplink_bits(certificates, *one_edge)
    assert found == [(6 * model_bits + 2 * 64 * 64, 6 * model_bits)] * 2
