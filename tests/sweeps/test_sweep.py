"""Whole sweeps: killed and resumed to the same bytes with any number of workers; run once; stale when code changes."""

import csv
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from sweep_studies import small

import hpfl
from hpfl.config import ConfigError
from hpfl.reporting.store import OutputError
from hpfl.sweeps import sweeping
from hpfl.sweeps.code_version import code_of
from hpfl.sweeps.in_process import InProcess
from hpfl.sweeps.parts import done
from hpfl.sweeps.runner import alone
from hpfl.sweeps.study_file import OUTPUTS
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_folder import claim, home_of, open_study, study_text
from hpfl.sweeps.sweep_plan import planned, usual_folder
from hpfl.sweeps.sweeping import Means, carry_out

FILES = {"results.csv", "results.parquet", "timings.csv", "table.md", "table.tex", "index.html", "study.toml"}


def carried(plan, **more):
    """Carried out, without a word."""
    return carry_out(plan, Means(device="cpu", **more), SweepDisplay(quiet=True))


@pytest.fixture
def here(monkeypatch):
    """Runs are played in this process, which has started already."""
    monkeypatch.setattr(sweeping, "make_engine", lambda name, **how: InProcess())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A sweep of one worker that nobody has disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert not carried(planned(small(outputs=list(OUTPUTS)), out), workers=1).left
    return out


def test_a_sweep_leaves_everything_that_it_promises(whole):
    assert {path.name for path in whole.iterdir()} == FILES | {"parts", "runs", "figures", ".lock"}
    assert {path.suffix for path in (whole / "figures").iterdir()} == {".svg", ".pdf"}
    rows = list(csv.DictReader((whole / "results.csv").read_text().splitlines()))
    assert [(row["planning.planner"], row["seed"]) for row in rows] == [
        ("paper", "0"), ("paper", "1"), ("random", "0"), ("random", "1"),
    ]  # fmt: skip
    summary = json.loads((whole / "runs" / "planner=paper" / "seed-1" / "summary.json").read_text())
    for name in ("time_s", "final_personalised_accuracy", "best_meta_loss", "energy_j", "uplink_bits"):
        assert float(rows[1][name]) == summary[name]
    frame = pd.read_parquet(whole / "results.parquet")
    assert list(frame.columns) == list(rows[0])
    assert frame["time_to_0.1_s"].tolist() == [float(row["time_to_0.1_s"]) for row in rows]


def test_the_page_needs_nothing_else(whole):
    text = (whole / "index.html").read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text
    assert "planner" in text
    assert text.count("data:image/svg+xml;base64,") == 1


def at_work(out):
    """Whether the first run has played rounds beyond a checkpoint, and is not over."""
    rounds = out / "runs" / "planner=paper" / "seed-0" / "rounds.jsonl"
    return rounds.is_file() and rounds.read_bytes().count(b"\n") >= 3


def begun_by(pid):
    """Its children, and theirs."""
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return children + [each for child in children for each in begun_by(child)]


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes_and_leaves_no_worker(whole, tmp_path):
    out, file = tmp_path / "cut", tmp_path / "study.toml"
    file.write_text(study_text(small().study))
    options = ["--out", str(out), "--workers", "1", "--device", "cpu"]
    command = [sys.executable, "-c", "from hpfl.cli import main; main()", "sweep", str(file), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not at_work(out):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    workers = begun_by(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(workers) == 2
    while any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in workers):
        time.sleep(0.05)
    assert not carried(planned(small(), out), workers=2).left
    assert (out / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
    assert (out / "table.tex").read_bytes() == (whole / "table.tex").read_bytes()
    assert not (out / "unfinished").exists()


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.usefixtures("here")
def test_what_is_there_is_not_run_again_and_more_seeds_are_the_same_sweep(tmp_path):
    out = tmp_path / "out"
    carried(planned(small(), out))
    before = {path: path.stat().st_mtime_ns for path in (out / "parts").rglob("*.json")}
    more = planned(small(seeds=3), out)
    carried(more)
    after = {path: path.stat().st_mtime_ns for path in (out / "parts").rglob("*.json")}
    assert len(after) == 6
    assert before == {path: after[path] for path in before}
    assert home_of(out / "study.toml") == out
    assert open_study(out / "study.toml").study == small(seeds=3).study


@pytest.mark.usefixtures("here")
def test_runs_of_other_code_are_stale_and_are_run_again_unless_they_are_kept(tmp_path, monkeypatch):
    out = tmp_path / "out"
    study = small(seeds=1)
    carried(planned(study, out))
    assert planned(study, out).stale == []
    monkeypatch.setattr("hpfl.sweeps.cells.code_of", lambda config: "another")
    stale = planned(study, out)
    assert stale.stale == ["planner=paper/seed-0", "planner=random/seed-0"]
    assert len(carried(stale, run=False).swept.runs) == 0
    assert len(carried(planned(study, out, keep_stale=True), run=False).swept.runs) == 2
    carried(stale)
    assert all(done(part, out)["code"] == "another" for part in stale.parts)


def test_the_version_of_what_computes_a_run_knows_parts_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    source = "def mine(*given, **more):\n    return {}\n"
    (tmp_path / "own_planner_a.py").write_text(source)
    (tmp_path / "own_planner_b.py").write_text(source + "# another\n")
    usual = code_of(hpfl.preset("quickstart"))
    assert code_of(hpfl.preset("paper-mnist")) == usual
    own = {code_of(hpfl.load("quickstart", overrides=[f"planning.planner=own_planner_{name}:mine"])) for name in "ab"}
    assert len({usual, *own}) == 3


@pytest.mark.usefixtures("here")
def test_a_run_that_fails_leaves_the_others_and_one_that_diverges_is_a_result(tmp_path):
    wild = small(grid={"learning.outer_lr": [0.05, 1e30]}, seeds=1)
    result = carried(planned(wild, tmp_path / "wild"))
    assert not result.left
    assert [run.lost is None for run in result.swept.runs] == [True, False]
    assert "0 of 1 arrive" in (tmp_path / "wild" / "table.md").read_text()
    lacking = small(grid={"data.dataset": ["mnist-mini", "folder:/nowhere"]}, seeds=1)
    result = carried(planned(lacking, tmp_path / "lacking"))
    assert len(result.swept.runs) == 1
    [(name, error)] = result.left.failed.items()
    assert "nowhere" in name
    assert "/nowhere" in error


def test_two_sweeps_do_not_share_a_folder(tmp_path):
    out = tmp_path / "out"
    claim(out, small())
    claim(out, small(seeds=4, targets=[0.5], grid={"planning.planner": ["paper", "random", "full"]}))
    for other, said in (
        (small(grid={"planning.rho": [0.1]}), "holds another sweep: it varies planning.planner, and this one planning"),
        (small(set={"training.rounds": 9}), "holds another sweep: training.rounds is set otherwise there"),
        (replace(small(), base=hpfl.preset("quickstart")), "holds another sweep: its base is another"),
    ):
        with pytest.raises(OutputError, match=said):
            claim(out, other)
    with alone(out), pytest.raises(OutputError, match="another hpfl sweep, hpfl tune or hpfl reproduce is at work"):
        carried(planned(small(), out))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(OutputError, match="is not empty, and no sweep's folder"):
        claim(tmp_path / "full", small())


def test_unasked_a_sweep_goes_to_its_own_folder_or_the_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = usual_folder("quickstart", small())
    claim(first, small())
    assert usual_folder("quickstart", small(seeds=7)) == first
    assert usual_folder("quickstart", small(set={"training.rounds": 9})).name == "quickstart-sweep-2"


def test_a_baseline_that_no_cell_has_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"baseline is planning.planner = 'full'; no cell has that"):
        planned(small(baseline={"planning.planner": "full"}), tmp_path)
    with pytest.raises(ConfigError, match=r"baseline has network.edges, which is not varied here"):
        planned(small(baseline={"network.edges": 3}), tmp_path)


@pytest.mark.usefixtures("here")
def test_from_python_it_is_a_table_with_one_row_per_run(tmp_path):
    config = hpfl.preset("quickstart-paper")
    config.training.rounds = 2
    study = {
        "vary": {"planning.planner": ("paper", "random")},
        "seeds": range(2),
        "set": small().study.set_,
        "outputs": [],
    }
    study["set"] = {key: value for key, value in study["set"].items() if key != "training.rounds"}
    frame = hpfl.sweep(config, out=tmp_path / "out", progress=False, device="cpu", **study)
    assert frame[["planning.planner", "seed", "rounds"]].values.tolist() == [
        ["paper", 0, 2], ["paper", 1, 2], ["random", 0, 2], ["random", 1, 2],
    ]  # fmt: skip
    again = hpfl.sweep(tmp_path / "out" / "study.toml", progress=False, run=False)
    pd.testing.assert_frame_equal(again, frame)
    assert hpfl.load(tmp_path / "out" / "base.toml") == config
