import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pandas as pd
import pytest
import safetensors.torch
import torch

import hpfl
from hpfl.data.dataset import DatasetError
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.store import OutputError, read_rounds
from hpfl.training.record import MEASURED_FIELDS

SMALL = [
    "network.edges=4",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[5, 20]",
    "evaluation.test_samples=10",
    "evaluation.every=2",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=9",
    "training.checkpoint_every=2",
]


def small(*overrides):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])


def repeatable(rounds):
    return [{key: value for key, value in row.items() if key not in MEASURED_FIELDS} for row in rounds]


def same_model(one, other):
    return all(torch.equal(one[name], other[name]) for name in one) and one.keys() == other.keys()


def test_ten_lines_of_python_give_rounds_summary_and_model():
    config = small()
    config.network.bandwidth_hz = 2e6
    result = hpfl.run(config)
    table = pd.DataFrame(result.rounds)
    assert table["round"].tolist() == list(range(1, 10))
    assert table["personalised_accuracy"].notna().tolist() == [row % 2 == 0 or row == 9 for row in range(1, 10)]
    assert result.summary["rounds"] == 9
    assert result.completed


@pytest.mark.parametrize("planner", ["random", "joint", "paper"])
def test_the_same_seed_gives_the_same_bits(planner):
    one, other = (hpfl.run(small(f"planning.planner={planner}")) for _ in range(2))
    assert repeatable(one.rounds) == repeatable(other.rounds)
    assert same_model(one.model, other.model)


def test_another_seed_gives_another_run():
    assert repeatable(hpfl.run(small()).rounds) != repeatable(hpfl.run(small("training.seed=1")).rounds)


def test_another_memory_budget_changes_rounding_only():
    wide = hpfl.run(small("learning.dtype=float64", "learning.batch_size=4"))
    tight = hpfl.run(small("learning.dtype=float64", "learning.batch_size=4", "learning.memory_gb=0.12"))
    assert [row["scheduled"] for row in wide.rounds] == [row["scheduled"] for row in tight.rounds]
    for name in wide.model:
        assert torch.allclose(wide.model[name], tight.model[name], rtol=0, atol=1e-12)


def test_results_are_files_that_pandas_and_safetensors_read(tmp_path):
    out = tmp_path / "run"
    result = hpfl.run(small(), out=out, figures=False)
    table = pd.read_json(out / "rounds.jsonl", lines=True)
    assert len(table) == 9
    assert set(PROMISED.split()) <= set(table.columns)
    assert same_model(safetensors.torch.load_file(out / "model.safetensors"), result.model)
    ues = pd.read_csv(out / "ues.csv")
    assert len(ues) == 12
    assert {"edge", "samples", "labels", "personalised_accuracy", "global_accuracy", "energy_j"} <= set(ues.columns)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["seed"] == 0
    assert hpfl.load(out / "config.toml") == small()


PROMISED = (
    "round time_s latency_s num_scheduled scheduled max_staleness importance bandwidth_used_hz planning_s meta_loss "
    "loss personalised_accuracy global_accuracy personalised_accuracy_p10"
)


def test_the_environment_is_that_of_the_device_that_is_used(monkeypatch):
    monkeypatch.setattr("hpfl.experiment.environment", lambda *, device: {"device": f"a kind of {device}"})
    assert hpfl.run(small("training.rounds=1"), device="cpu").summary["environment"] == {"device": "a kind of cpu"}


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        hpfl.run(small(), out=tmp_path, figures=False)


@pytest.mark.parametrize("stop_after", [1, 2, 5])
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path, stop_after):
    whole = hpfl.run(small(), out=tmp_path / "whole", figures=False)
    seen = []
    hooks = hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == stop_after)
    assert not hpfl.run(small(), out=tmp_path / "parts", figures=False, hooks=hooks).completed
    resumed = hpfl.run(small(), out=tmp_path / "parts", figures=False, resume=True)
    assert repeatable(resumed.rounds) == repeatable(whole.rounds)
    assert same_model(resumed.model, whole.model)


def test_a_run_resumes_past_a_damaged_checkpoint_from_the_one_before(tmp_path):
    whole = hpfl.run(small(), out=tmp_path / "whole", figures=False)
    seen = []
    hpfl.run(
        small(),
        out=tmp_path / "parts",
        figures=False,
        hooks=hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == 6),
    )
    newest = sorted((tmp_path / "parts" / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    notes = []
    resumed = hpfl.run(small(), out=tmp_path / "parts", figures=False, resume=True, hooks=hpfl.Hooks(note=notes.append))
    assert any(newest.name in note and "damaged" in note for note in notes)
    assert repeatable(resumed.rounds) == repeatable(whole.rounds)
    assert same_model(resumed.model, whole.model)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_finished_run_can_be_prolonged_to_the_same_bits(tmp_path, every):
    whole = hpfl.run(small("training.rounds=8", f"evaluation.every={every}"), out=tmp_path / "whole", figures=False)
    for rounds in (3, 5, 8):
        longer = hpfl.run(
            small(f"training.rounds={rounds}", f"evaluation.every={every}"),
            out=tmp_path / "run",
            resume=rounds > 3,
            figures=False,
        )
        assert longer.rounds[-1]["meta_loss"] is not None
    assert repeatable(longer.rounds) == repeatable(whole.rounds)
    assert repeatable(read_rounds(tmp_path / "run")) == repeatable(whole.rounds)


def test_a_run_of_another_configuration_is_not_resumed_and_the_keys_that_differ_are_named(tmp_path):
    joint = partial(small, "planning.planner=joint")
    hpfl.run(joint("training.rounds=2"), out=tmp_path / "run", figures=False)
    other = joint("planning.rho=0.1", "network.cpu_hz={choice=[1e9, 2e9]}", "evaluation.target_accuracy=0.5")

    def refused(changed):
        with pytest.raises(CheckpointError) as error:
            hpfl.run(changed, out=tmp_path / "run", figures=False, resume=True, hooks=hpfl.Hooks())
        return str(error.value)

    assert refused(other).startswith(
        f"the run in {tmp_path / 'run'} has another configuration: "
        "network.cpu_hz is {'choice': [1000000000.0, 2000000000.0]} here, 2000000000.0 in the run; "
        "planning.rho is 0.1 here, 0.8 in the run; resume it"
    )
    seven = [f"{key}=0.5" for key in ("rho", "phi")] + [f"{key}=7" for key in ("max_edges", "staleness_bound")]
    seven = [f"planning.{text}" for text in seven] + [f"learning.{name}_steps=2" for name in ("inner", "local")]
    assert "; and 2 more; resume it" in refused(joint(*seven, "training.seed=1"))
    file = tmp_path / "run" / "config.toml"
    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True) if "rho" not in line))
    assert "planning.rho is 0.1 here, 0.8 in the run" in refused(other)
    file.unlink()
    assert "config.toml does not tell which" in refused(other)


def test_a_run_from_python_draws_its_figures_unless_told_not_to(tmp_path):
    hpfl.run(small("training.rounds=2"), out=tmp_path / "drawn")
    assert sorted(path.name for path in (tmp_path / "drawn" / "figures").iterdir()) == [
        "latency.png",
        "progress.png",
        "schedule.png",
        "ues.png",
    ]
    hpfl.run(small("training.rounds=2"), out=tmp_path / "bare", figures=False)
    assert not (tmp_path / "bare" / "figures").exists()


def test_without_matplotlib_a_run_from_python_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    notes = []
    assert hpfl.run(small("training.rounds=1"), out=tmp_path, hooks=hpfl.Hooks(note=notes.append)).completed
    assert notes == ["figures need matplotlib: pip install 'hpfl[figures]'"]


def test_force_replaces_a_run_and_leaves_what_is_not_its_own(tmp_path):
    config = small("training.rounds=4")
    hpfl.run(config, out=tmp_path, figures=False)
    strangers = [tmp_path / name for name in ("notes.txt", "theory.tex", "figures/mine.png", "checkpoints/best.pt")]
    (tmp_path / "figures").mkdir()
    for path in (*strangers, tmp_path / "theory.csv", tmp_path / "figures" / "timeline.svg"):
        path.write_text("mine")
    shorter = hpfl.run(small("training.rounds=3", "training.seed=1"), out=tmp_path, force=True, figures=False)
    fresh = hpfl.run(small("training.rounds=3", "training.seed=1"), out=tmp_path / "fresh", figures=False)
    assert repeatable(read_rounds(tmp_path)) == repeatable(fresh.rounds) == repeatable(shorter.rounds)
    assert [path.read_text() for path in strangers] == ["mine"] * 4
    assert not (tmp_path / "theory.csv").exists()
    assert not (tmp_path / "figures" / "timeline.svg").exists()
    states = sorted(path.name for path in (tmp_path / "checkpoints").glob("round-*"))
    assert states == ["round-00000002.safetensors", "round-00000003.safetensors"]
    assert (tmp_path / "timeline.jsonl").read_bytes() == (tmp_path / "fresh" / "timeline.jsonl").read_bytes()


def test_what_cannot_begin_replaces_nothing(tmp_path):
    hpfl.run(small("training.rounds=2"), out=tmp_path, figures=False)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(DatasetError):
        hpfl.run(small("data.dataset=mnist"), out=tmp_path, force=True, data_dir=tmp_path / "empty")
    with pytest.raises(OutputError, match="--resume goes on with a run and --force starts it anew"):
        hpfl.run(small(), out=tmp_path, force=True, resume=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("precious.txt", "mine", "holds files but no run"),
        ("rounds.jsonl", '{"lap": 1}\n', "holds files but no run"),
        ("run-id", "0", "holds the run of a deployment"),
    ],
)
def test_force_replaces_nothing_but_runs(tmp_path, name, content, said):
    if name == "run-id":
        hpfl.run(small("training.rounds=1"), out=tmp_path, figures=False)
    (tmp_path / "config.toml").write_text("")
    (tmp_path / name).write_text(content)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(OutputError, match=said):
        hpfl.run(small(), out=tmp_path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def command(out, *more):
    sets = [part for text in SMALL for part in ("--set", text)]
    hpfl_command = "from hpfl.cli import main; main()"
    return [
        sys.executable,
        "-c",
        hpfl_command,
        "run",
        "quickstart-paper",
        *sets,
        "--rounds",
        "40",
        "--out",
        str(out),
        *more,
    ]


def test_after_kill_9_at_any_moment_resume_gives_the_uninterrupted_runs_bits(tmp_path):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command(tmp_path / "whole", "--quiet"), check=True, env=environment)
    out = tmp_path / "killed"
    for wait_for in (3, 17):
        more = ["--resume"] if (out / "rounds.jsonl").exists() else []
        process = subprocess.Popen(command(out, "--quiet", *more), env=environment)
        while process.poll() is None and _lines(out) < wait_for:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command(out, "--quiet", "--resume"), check=True, env=environment)
    rounds = [
        [json.loads(line) for line in (tmp_path / name / "rounds.jsonl").read_text().splitlines()]
        for name in ("whole", "killed")
    ]
    assert repeatable(rounds[0]) == repeatable(rounds[1])
    models = [safetensors.torch.load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed")]
    assert same_model(*models)


def _lines(out):
    path = out / "rounds.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0
