import itertools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.reporting.gantt import draw_timeline
from hpfl.reporting.store import OutputError
from hpfl.reporting.table import write_table
from hpfl.reporting.timeline import INSTANTS, TimelineFile, bars, read_timeline
from hpfl.training.phases import Phases

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[5, 20]",
    "evaluation.test_samples=5",
    "evaluation.every=100",
    "planning.max_edges=2",
    "planning.planner=random",
    "training.rounds=6",
]


@pytest.fixture(scope="module", params=["round", "event"])
def run(request, tmp_path_factory):
    out = tmp_path_factory.mktemp("timeline") / request.param
    hpfl.run(
        hpfl.load("quickstart-paper", overrides=[*SMALL, f"training.clock={request.param}"]), out=out, figures=False
    )
    return out


def phases(number, edge=0, start_s=0.0):
    return Phases(
        round=number,
        edge=np.array([edge]),
        phase=np.array([3]),
        start_s=np.array([start_s]),
        end_s=np.array([start_s + 1.0]),
        base_round=np.array([0]),
        bits=np.array([0.0]),
    )


def test_an_edges_phases_follow_each_other_without_gap_or_overlap(run):
    rounds = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    for edge in range(4):
        own = [row for row in read_timeline(run) if row["edge"] == edge and row["phase"] not in INSTANTS]
        assert own[0]["start_s"] == 0.0
        assert all(one["end_s"] == pytest.approx(two["start_s"]) for one, two in itertools.pairwise(own))
        assert own[-1]["end_s"] == pytest.approx(rounds[-1]["time_s"])


def test_the_timelines_bits_are_the_records(run):
    rounds = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    for record in rounds:
        sent = sum(row["bits"] for row in read_timeline(run, (record["round"], record["round"])))
        assert sent == pytest.approx(record["uplink_bits"])


def test_a_phase_that_spans_rounds_is_one_bar(tmp_path):
    timeline = TimelineFile(tmp_path)
    for number in range(3):
        timeline.append(phases(number + 1, start_s=float(number)))
    timeline.close()
    (bar,) = bars(read_timeline(tmp_path))
    assert (bar.start_s, bar.end_s, bar.round) == (0.0, 3.0, 3)


def test_rewinding_drops_later_rounds_and_half_a_line(tmp_path):
    timeline = TimelineFile(tmp_path)
    for number in range(1, 5):
        timeline.append(phases(number))
    timeline.close()
    with (tmp_path / "timeline.jsonl").open("a") as file:
        file.write('{"round": 5, "ed')
    timeline.rewind(2)
    timeline.append(phases(3, edge=7))
    timeline.close()
    assert [(row["round"], row["edge"]) for row in read_timeline(tmp_path)] == [(1, 0), (2, 0), (3, 7)]


def torn(path, number):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[number] = lines[number][:10] + b"\n"
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize(("line", "whole"), [(None, None), (0, 0), (3, 1), (4, 1), (7, 3), (8, 4)])
def test_rounds_are_whole_up_to_the_first_damaged_line(tmp_path, line, whole):
    timeline = TimelineFile(tmp_path)
    for number in (1, 1, 2, 2, 3, 3, 4, 4, 5):
        timeline.append(phases(number))
    timeline.close()
    if line is not None:
        torn(timeline.path, line)
    assert timeline.last_round() == whole


def test_a_run_goes_on_from_the_checkpoint_before_the_damage(tmp_path):
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, "training.checkpoint_every=2"])
    hpfl.run(config, out=tmp_path / "straight", figures=False)
    seen, notes = [], []
    hpfl.run(
        config,
        out=tmp_path / "r",
        figures=False,
        hooks=hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == 4),
    )
    path = tmp_path / "r" / "timeline.jsonl"
    torn(path, [row["round"] for row in read_timeline(tmp_path / "r")].index(4) + 1)
    hpfl.run(config, out=tmp_path / "r", figures=False, resume=True, hooks=hpfl.Hooks(note=notes.append))
    assert notes[-1] == "resuming after round 2"
    assert "timeline.jsonl is not what was written up to round 4" in notes[0]
    assert path.read_bytes() == (tmp_path / "straight" / "timeline.jsonl").read_bytes()


def test_a_timeline_that_is_damaged_before_every_checkpoint_is_put_away_and_another_begins(tmp_path):
    config, seen, notes = hpfl.load("quickstart-paper", overrides=SMALL), [], []
    hpfl.run(
        config, out=tmp_path, figures=False, hooks=hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == 3)
    )
    torn(tmp_path / "timeline.jsonl", 0)
    damaged = (tmp_path / "timeline.jsonl").read_bytes()
    hpfl.run(config, out=tmp_path, figures=False, resume=True, hooks=hpfl.Hooks(note=notes.append))
    assert (tmp_path / "timeline.jsonl.damaged-1").read_bytes() == damaged
    assert "put away as timeline.jsonl.damaged-1, and another begins" in notes[0]
    assert read_timeline(tmp_path)[0]["round"] == 4


def test_damage_and_absence_are_named(tmp_path):
    with pytest.raises(OutputError, match="is missing"):
        read_timeline(tmp_path)
    (tmp_path / "timeline.jsonl").write_text('{"round": 1}\n')
    with pytest.raises(OutputError, match="line 1 is not a phase"):
        read_timeline(tmp_path)


def test_the_picture_is_drawn_and_repeats(run, tmp_path):
    one = draw_timeline(run, tmp_path / "one.png").read_bytes()
    assert one.startswith(b"\x89PNG")
    assert one == draw_timeline(run, tmp_path / "two.png").read_bytes()
    assert one != draw_timeline(run, tmp_path / "some.png", (1, 3)).read_bytes()


def test_the_command_draws_and_refuses_in_one_line(run, tmp_path):
    runner = CliRunner()
    done = runner.invoke(app, ["timeline", str(run), "--rounds", "2:4", "--out", str(tmp_path / "t.svg")])
    assert done.exit_code == 0
    assert (tmp_path / "t.svg").exists()
    for wrong in (["--rounds", "4:2"], ["--rounds", "x"], ["--rounds", "90:95"], ["--out", "t.gif"]):
        refused = runner.invoke(app, ["timeline", str(run), *wrong])
        assert refused.exit_code == 2
        assert refused.stderr.startswith("hpfl: ")
        assert refused.stderr.count("\n") == 1


def test_a_table_in_pieces_is_the_table_in_one(tmp_path, monkeypatch):
    columns = {"ue": np.arange(10), "accuracy": np.where(np.arange(10) % 3, 0.1 * np.arange(10), np.nan)}
    write_table(tmp_path / "one.csv", columns)
    monkeypatch.setattr("hpfl.reporting.table.ROWS_PER_PIECE", 3)
    write_table(tmp_path / "pieces.csv", columns)
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "pieces.csv").read_text()
    assert (tmp_path / "one.csv").read_text().splitlines()[1] == "0,"
