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
