"""Traces: what a run draws can be written down and replayed to the same bits; a wrong trace is refused by line."""

import numpy as np
import pytest
import torch
from test_living_runs import LIFE, config, repeatable

import hpfl
from hpfl.simulation.trace import TraceError, TraceFile, read_trace

DRAWN = ["network.fading=none", "network.ue_gain_db=-60.0", "network.cpu_hz=1e8", "training.seed=0"]


def written(path, *lines, header="what,round,part,member,value"):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


SKETCHED = ["planning.planner=fastest", "training.clock=event", "network.coherence_s=0.02"]
"""Sketches that take longer than a fade lasts: the plan is carried out in another one than it was made in."""


@pytest.mark.parametrize("overrides", [["planning.planner=random"], LIFE, SKETCHED], ids=["plain", "life", "sketched"])
def test_the_trace_of_a_run_replays_it_twice_to_the_same_bits(tmp_path, overrides):
    drawn = hpfl.run(config(*overrides, f"network.write_trace={tmp_path / 'trace.csv'}"))
    for _ in range(2):
        replayed = hpfl.run(config(*overrides, f"network.trace={tmp_path / 'trace.csv'}"))
        assert repeatable(replayed.rounds) == repeatable(drawn.rounds)
        assert all(torch.equal(drawn.model[name], replayed.model[name]) for name in drawn.model)


def test_gains_and_compute_times_come_from_the_trace_not_from_the_settings(tmp_path):
    plain = ["planning.planner=random"]
    drawn = hpfl.run(config(*plain, f"network.write_trace={tmp_path / 'trace.csv'}"))
    replayed = hpfl.run(config(*plain, *DRAWN, f"network.trace={tmp_path / 'trace.csv'}"))
    assert [row["time_s"] for row in replayed.rounds] == [row["time_s"] for row in drawn.rounds]


def test_a_resumed_run_writes_the_same_trace(tmp_path):
    hpfl.run(config(f"network.write_trace={tmp_path / 'whole.csv'}"))
    cut = config(f"network.write_trace={tmp_path / 'parts.csv'}", "training.checkpoint_every=3")
    seen = []
    hooks = hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == 4)
    hpfl.run(cut, out=tmp_path / "run", figures=False, hooks=hooks)
    with (tmp_path / "parts.csv").open("a") as file:
        file.write("ue_gain,4,0,0,0.1\nue_gain,4,0,1,0.")
    hpfl.run(cut, out=tmp_path / "run", figures=False, resume=True)
    assert (tmp_path / "parts.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_availability_alone_makes_ues_leave_and_come_back(tmp_path):
    away = {(1, 0), (1, 1), (1, 2), (1, 3)}  # all of edge 0 in round 1
    lines = [f"available,{t},0,{i},{0 if (t, i) in away else 1}" for t in range(3) for i in range(20)]
    path = written(tmp_path / "trace.csv", *lines)
    result = hpfl.run(config("planning.planner=full", "training.rounds=3", f"network.trace={path}"), hooks=hpfl.Hooks())
    assert [row["num_participants"] for row in result.rounds] == [20, 16, 20]
    assert result.rounds[1]["aggregated"] == [1, 2, 3, 4]


def test_a_parquet_trace_is_read_like_a_csv(tmp_path):
    pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    path = written(tmp_path / "t.csv", "edge_gain,0,0,0,0.5", "edge_gain,0,0,1,0.25")
    pd.read_csv(path).to_parquet(tmp_path / "t.parquet")
    trace = read_trace(tmp_path / "t.parquet", num_ues=1, num_edges=2)
    assert trace.of("edge_gain")((0, 0)).tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["ue_gain,0,0,0,-0.2"], r"line 2: ue_gain is -0.2; a power gain must be positive"),
        (["ue_gain,0,0,0,nan"], r"line 2: ue_gain is nan"),
        (
            ["ue_gain,0,0,9,0.1"],
            r"line 2: round 0, part 0, member 9; wanted rounds and parts from 0 on, members 0 to 1",
        ),
        (["gain,0,0,0,0.1"], r"line 2: what is 'gain'; wanted ue_gain, edge_gain, compute_s, available"),
        (["ue_gain,0,0,zero,0.1"], r"line 2: .* are not a round, a part, a member and a number"),
        (["ue_gain,0,0,0"], r"line 2 has 4 cells; wanted 5"),
        (["ue_gain,0,0,0,0.1", "ue_gain,0,0,0,0.1"], r"line 3: ue_gain of member 0 in round 0 part 0 is given twice"),
        (["ue_gain,0,0,0,0.1"], r"ue_gain in round 0 part 0 lacks member 1 \(1 in all\)"),
        (["available,0,0,0,0.5"], r"line 2: available is 0.5; it must be 0 or 1"),
        (["compute_s,0,0,0,-1"], r"line 2: compute_s is -1.0; seconds must be at least 0"),
        ([], r"is empty"),
    ],
)
def test_a_wrong_trace_is_refused_with_its_line(tmp_path, lines, message):
    with pytest.raises(TraceError, match=message):
        read_trace(written(tmp_path / "trace.csv", *lines), num_ues=2, num_edges=1)


def test_a_table_with_other_columns_is_refused(tmp_path):
    with pytest.raises(TraceError, match="wanted the columns what,round,part,member,value"):
        read_trace(written(tmp_path / "trace.csv", header="round,gain"), num_ues=2, num_edges=1)


def test_a_trace_that_is_not_text_is_refused_in_a_sentence(tmp_path):
    path = written(tmp_path / "trace.csv", "ue_gain,0,0,0,0.1")
    path.write_bytes(path.read_bytes() + b"ue_gain,0,0,1,0.1\xff\xfe\n")
    with pytest.raises(TraceError, match=r"trace\.csv cannot be read after line \d+ \('utf-8' .*; wanted CSV in UTF-8"):
        read_trace(path, num_ues=2, num_edges=1)


def test_a_trace_shorter_than_the_run_is_refused_before_it_starts(tmp_path):
    path = written(tmp_path / "t.csv", *(f"edge_gain,0,0,{k},0.5" for k in range(5)))
    with pytest.raises(TraceError, match=r"edge_gain up to round 0 part 0; round 7 part 0 was wanted"):
        hpfl.run(config(f"network.trace={path}"))


def test_a_missing_trace_and_one_that_exists_are_refused(tmp_path):
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.csv", num_ues=1, num_edges=1)
    path = written(tmp_path / "t.csv")
    with pytest.raises(TraceError, match="exists"):
        TraceFile(path, resume=False, num_ues=1, num_edges=1)


def test_numbers_are_written_to_the_last_bit(tmp_path):
    trace = TraceFile(tmp_path / "t.csv", resume=False, num_ues=2, num_edges=1)
    values = np.array([1 / 3, 2**-70])
    trace.record("ue_gain", (0, 0), values)
    trace.record("ue_gain", (0, 0), values)
    trace.close()
    assert np.array_equal(read_trace(tmp_path / "t.csv", num_ues=2, num_edges=1).of("ue_gain")((0, 0)), values)
