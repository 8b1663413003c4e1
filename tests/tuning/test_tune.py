"""A whole search: the same trials whoever runs them and however often they are killed, and what it leaves."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tune_studies import small

import hpfl
from hpfl.reporting.store import OutputError
from hpfl.sweeps.in_process import InProcess
from hpfl.sweeps.sweep_display import SweepDisplay
from hpfl.sweeps.sweep_folder import study_text
from hpfl.sweeps.sweeping import Means
from hpfl.tuning.asking import Known, importances, proposal
from hpfl.tuning.plan import planned_search
from hpfl.tuning.space import configured_values, value_of
from hpfl.tuning.tune_settings import Range
from hpfl.tuning.tuning import carry_out_search

pytest.importorskip("optuna", reason="the extra `tune` is not installed")


class Here(Means):
    """All runs in this process: starting workers takes longer than these runs."""

    def make(self):
        return InProcess()


def search(based, out, **how):
    plan = planned_search(based, out, where="study.toml")
    return plan, carry_out_search(plan, Here(device="cpu"), SweepDisplay(quiet=True), **how)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    out = tmp_path_factory.mktemp("tune") / "out"
    return (out, *search(small(outputs=["csv", "parquet", "tables", "figures", "page"]), out))


def test_a_search_leaves_trials_best_configurations_tables_a_figure_and_a_page(searched):
    out, _, result = searched
    assert {path.name for path in out.iterdir()} >= {
        "trials.csv", "trials.parquet", "table.md", "table.tex", "index.html", "tune.toml", "best", "figures", "runs",
    }  # fmt: skip
    assert [len(search.trials) for search in result.searches] == [3, 3]
    for search in result.searches:
        best = search.best
        scores = [trial.value for trial in search.trials if trial.value is not None]
        assert best.value == min(scores)
        told = hpfl.load(out / "best" / f"{search.cell.name}.toml")
        assert value_of(told, "learning.outer_lr") == best.params["learning.outer_lr"]
        assert told.training.rounds == 4
    assert "learning.outer_lr" in (out / "index.html").read_text()
    assert not result.left


def test_the_first_trial_has_the_configured_values_and_the_others_few_digits_within_the_range(searched):
    for search in searched[2].searches:
        values = [trial.params["learning.outer_lr"] for trial in search.trials]
        assert values[0] == search.cell.config.learning.outer_lr
        assert all(0.01 <= value <= 1.0 and len(f"{value:g}".replace("0.", "").lstrip("0")) <= 4 for value in values)


def test_best_and_configured_values_are_judged_on_seeds_that_chose_nothing(searched):
    _, plan, result = searched
    assert plan.fresh == [2]
    for search in result.searches:
        assert {kind: sorted(runs) for kind, runs in search.fresh_runs.items()} == {"configured": [2], "best": [2]}


def test_a_search_that_was_stopped_and_one_that_lost_its_proposals_come_to_the_same_bytes(searched, tmp_path):
    out, _, _ = searched
    left, asked = tmp_path / "left", []
    based = small(outputs=["csv", "tables"])
    for rounds in (3, 25, 10_000):  # stopped in the first batch, later, never

        def stop(rounds=rounds):
            asked.append(rounds)
            return asked.count(rounds) > rounds

        _, result = search(based, left, should_stop=stop)
        if rounds == 3:
            assert result.left.missing
        (left / "proposals.json").unlink()  # it could be made again
    for name in ("trials.csv", "table.md", "table.tex"):
        assert (left / name).read_bytes() == (out / name).read_bytes(), name


@pytest.mark.slow  # two workers are started twice
def test_a_search_that_was_killed_goes_on_to_the_same_bytes_with_two_workers(searched, tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(study_text(small().study))
    command = [sys.executable, "-c", "from hpfl.cli import main; main()", "tune", str(file), "--device", "cpu"]
    command += ["--out", str(tmp_path / "out"), "--workers", "2", "--quiet"]
    process = subprocess.Popen(command)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("out/parts/*/trial-*/*.json"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert subprocess.run(command, check=False).returncode == 0
    assert (tmp_path / "out" / "trials.csv").read_bytes() == (searched[0] / "trials.csv").read_bytes()


def test_more_trials_are_the_same_search_and_leave_the_old_ones_as_they_are(searched, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(searched[0], out)
    before = (out / "trials.csv").read_text().splitlines()
    _, result = search(small(tune={"trials": 4}), out)
    after = (out / "trials.csv").read_text().splitlines()
    assert [len(search.trials) for search in result.searches] == [4, 4]
    assert [line.rpartition(",True,")[0] for line in before[1:4]] == [
        line.rpartition(",True,")[0] for line in after[1:4]
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tune": {"limit": 60.0}}, "holds another search: its tune.limit is another"),
        ({"seeds": 3}, "holds another search: its seeds are others"),
        ({"grid": {"learning.inner_lr": [0.0, 0.02]}}, "holds another search: its values of its axes are others"),
        ({"set": {"training.rounds": 7}}, "holds another search: training.rounds is set otherwise there"),
    ],
)
def test_the_folder_of_another_search_is_refused(searched, change, said):
    with pytest.raises(OutputError, match=said):
        search(small(**change), searched[0])


def test_a_folder_of_a_sweep_and_one_of_something_else_are_refused(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(OutputError, match="is not empty, and no search's folder"):
        search(small(), tmp_path)


def test_a_trial_that_is_behind_the_median_is_given_up_and_its_other_seeds_are_not_run(tmp_path):
    tune = {"trials": 6, "batch": 1, "prune_startup": 2, "fresh_seeds": 0, "prune": "rounds"}
    based = small(tune=tune, grid={}, targets=[0.99], set={"training.rounds": 6})
    _, result = search(based, tmp_path / "out")
    trials = result.searches[0].trials
    pruned = [trial for trial in trials if trial.state == "pruned"]
    assert pruned
    assert all(list(trial.runs) == [0] and trial.runs[0].rounds < 6 for trial in pruned)
    assert all(trial.value == 50.0 for trial in trials if trial.state == "done")  # nobody arrives
    assert all(trial.arrived == 0 for trial in trials)


def test_a_column_of_results_is_searched_for_more_of_it_and_values_that_came_twice_are_run_once(tmp_path):
    tune = {"space": {"planning.planner": ["random", "full"]}, "objective": "final_personalised_accuracy", "trials": 5}
    based = small(tune=tune | {"fresh_seeds": 0}, grid={}, seeds=1)
    del based.study.tune["limit"]
    _, result = search(based, tmp_path / "out")
    trials = result.searches[0].trials
    assert result.searches[0].best.value == max(trial.value for trial in trials)
    assert len(list((tmp_path / "out" / "parts").rglob("*.json"))) == len({str(trial.params) for trial in trials}) <= 2


def test_values_whose_runs_fail_are_a_failed_trial_and_the_search_goes_on(tmp_path):
    tune = {"space": {"planning.planner": ["random", "failing_parts:failing"]}, "trials": 4, "fresh_seeds": 0}
    _, result = search(small(tune=tune, grid={}, seeds=1), tmp_path / "out")
    states = {trial.params["planning.planner"]: trial.state for trial in result.searches[0].trials}
    assert states == {"random": "done", "failing_parts:failing": "failed"}
    assert all("this planner never plans" in error for error in result.left.failed.values())
    assert len(result.left.failed) == 1
    failed = [trial for trial in result.searches[0].trials if trial.state == "failed"]
    assert all("this planner never plans" in trial.why for trial in failed)


def test_a_proposal_follows_from_what_is_known_and_from_its_address_alone():
    space = {"a.b": Range(low=0.01, high=1.0, log=True), "c.d": ["x", "y", [1, 2]], "e.f": Range(low=1, high=9)}
    known = [
        Known(params={"a.b": 0.01 * 1.5**at, "c.d": ["x", "y", [1, 2]][at % 3], "e.f": 1 + at % 9}, score=float(at))
        for at in range(9)
    ]
    known += [Known(params=known[0].params, stopped={3: 0.5}), Known(params=known[1].params, waiting=True)]
    known += [Known(params=known[2].params, failed=True)]
    asked = [proposal(space, known, sampler="tpe", address=address) for address in ("one", "one", "two")]
    assert asked[0] == asked[1] != asked[2]
    assert json.loads(json.dumps(asked[0])) == asked[0]
    assert all(isinstance(each["e.f"], int) and each["c.d"] in ["x", "y", [1, 2]] for each in asked)
    shares = importances(space, known)
    assert set(shares) == set(space)
    assert sum(shares.values()) == pytest.approx(1.0)


def test_configured_values_outside_the_space_are_no_first_trial():
    config = hpfl.preset("quickstart-paper")
    assert configured_values(config, {"learning.outer_lr": Range(low=0.5, high=1.0)}) is None
    assert configured_values(config, {"planning.planner": [config.planning.planner, "full"]}) == {
        "planning.planner": config.planning.planner
    }


def test_the_door_of_scripts_gives_a_row_for_each_trial(searched):
    frame = hpfl.tune(searched[0] / "tune.toml", run=False)
    assert len(frame) == 6
    assert frame.groupby("case")["best"].sum().tolist() == [1, 1]
    assert Path(searched[0] / "trials.csv").read_text().splitlines()[0].split(",") == list(frame.columns)
