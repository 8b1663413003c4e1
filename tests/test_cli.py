import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.data.sources import DATASETS, Dataset, DatasetSpec

SMALL = [
    part
    for text in (
        "network.edges=3",
        "network.ues_per_edge=2",
        "data.samples_per_ue=[5, 9]",
        "evaluation.test_samples=5",
        "evaluation.every=1",
        "planning.max_edges=2",
    )
    for part in ("--set", text)
]


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_run_leaves_results_and_figures_and_says_where(tmp_path):
    result = invoke("run", "quickstart-paper", *SMALL, "--rounds", 3, "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert str(tmp_path / "r") in result.output.replace("\n", "")
    assert {path.name for path in (tmp_path / "r").iterdir()} >= {
        "rounds.jsonl",
        "summary.json",
        "config.toml",
        "model.safetensors",
        "ues.csv",
        "figures",
    }
    assert list((tmp_path / "r" / "figures").glob("*.png"))
    assert "diverged" not in result.output


def test_a_run_that_loses_what_it_had_learned_says_so(tmp_path):
    wild = ["--set", "learning.outer_lr=300", "--set", "planning.planner=random"]
    result = invoke("run", "quickstart-paper", *SMALL, *wild, "--rounds", 6, "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert "has diverged" in result.output
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["diverged"]


def line_of_five(folder, progress):
    """Regression: the target is a weighted sum of five features."""
    inputs = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    targets = inputs @ np.arange(5, dtype=np.float32)
    return Dataset("line", inputs, targets, None, inputs[:50], targets[:50], sample_bits=160)


def test_a_run_without_accuracies_ends_with_its_losses(tmp_path, monkeypatch):
    spec = DatasetSpec("line", None, (5,), num_train=200, num_test=50, sample_bits=160, load=line_of_five)
    monkeypatch.setitem(DATASETS._parts, "line", DATASETS._made("line", spec, "elsewhere", None, {}))
    task = ["data.dataset=line", "learning.loss=mse", "data.partitioner=iid", "learning.outer_lr=0.01"]
    sets = [part for text in task for part in ("--set", text)]
    result = invoke("run", "quickstart-paper", *SMALL, *sets, "--rounds", 2, "--out", tmp_path / "r")
    assert result.exit_code == 0, result.output
    loss = json.loads((tmp_path / "r" / "summary.json").read_text())["final_personalised_test_loss"]
    assert f"personalised test loss {loss:.3g}, global" in " ".join(result.output.split())


def test_a_model_that_is_no_longer_finite_ends_the_run_with_status_1_and_a_summary(tmp_path):
    result = invoke(
        "run", "quickstart-paper", *SMALL, "--set", "learning.outer_lr=1e30", "--rounds", 6, "--out", tmp_path / "r"
    )
    assert result.exit_code == 1
    assert "round 2: the update of" in result.stderr
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert (summary["diverged"], summary["completed"], summary["rounds"]) == (True, False, 1)


def begun(folder, *changes):
    """A run of one round, unless changed."""
    hpfl.run(
        hpfl.load("quickstart-paper", overrides=[*SMALL[1::2], "training.rounds=1", *changes]),
        out=folder,
        figures=False,
    )


def rounds_in(folder):
    return len((Path(folder) / "rounds.jsonl").read_text().splitlines())


def test_a_run_is_resumed_from_its_own_configuration_where_it_lies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun("runs/mine")
    assert invoke("run", "runs/mine/config.toml", "--resume", "--rounds", 2, "-q").exit_code == 0
    assert rounds_in("runs/mine") == 2


def test_a_run_without_a_folder_goes_where_nothing_is_yet_and_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun("runs/quickstart-paper")
    again = invoke("run", "quickstart-paper", *SMALL, "--rounds", 2)
    assert "runs/quickstart-paper is there already; results go to runs/quickstart-paper-2" in again.stdout
    assert again.stdout.endswith("Results in runs/quickstart-paper-2\n")
    repeated = invoke("run", "runs/quickstart-paper-2/config.toml", "-q")
    assert (repeated.exit_code, repeated.output) == (0, "")
    assert [rounds_in(f"runs/quickstart-paper{end}") for end in ("", "-2", "-3")] == [1, 2, 2]
    assert invoke("run", "quickstart-paper", "--set", "data.dataset=mnist", "--data-dir", "nowhere").exit_code == 2
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "quickstart-paper",
        "quickstart-paper-2",
        "quickstart-paper-3",
    ]


def test_force_replaces_the_run_whose_configuration_it_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun("runs/mine", "training.rounds=2")
    assert invoke("run", "runs/mine/config.toml", "--rounds", 1, "-q", "--force").exit_code == 0
    assert [path.name for path in Path("runs").iterdir()] == ["mine"]
    assert rounds_in("runs/mine") == 1
    refused = invoke("run", "runs/mine/config.toml", "--out", "runs/mine")
    assert (refused.exit_code, "--resume, replace it with --force, or" in refused.stderr) == (2, True)


def test_resume_without_a_folder_takes_the_newest_run_of_that_configuration(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for end, seed in (("", 0), ("-2", 0), ("-3", 1)):
        begun(f"runs/quickstart-paper{end}", f"training.seed={seed}")
    longer = invoke("run", "quickstart-paper", *SMALL, "--rounds", 2, "--resume")
    assert "going on with runs/quickstart-paper-2" in longer.stdout
    assert [rounds_in(f"runs/quickstart-paper{end}") for end in ("", "-2", "-3")] == [1, 2, 1]
    other = invoke("run", "quickstart-paper", *SMALL, "--seed", 7, "--resume")
    assert other.exit_code == 2
    assert (
        "the run in runs/quickstart-paper-3 has another configuration: training.seed is 7 here, 1 in the run"
        in other.stderr
    )


def test_quiet_says_nothing(tmp_path):
    result = invoke("run", "quickstart-paper", *SMALL, "--rounds", 2, "--out", tmp_path / "r", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "quickstart-paper", "--set", "planning.rho=1.4"], "planning.rho is 1.4"),
        (["run", "quickstart-paper", "--set", "planning.roh=0.4"], "did you mean planning.rho?"),
        (["run", "quickstart-paper", "--system", "hpf"], "no system is called 'hpf'"),
        (["run", "nowhere.toml"], "neither a file nor a preset"),
        (["run", "quickstart-paper", "--device", "tpu"], "device is 'tpu'"),
        (["run", "quickstart-paper", "--rounds", "0"], "training.rounds is 0"),
        (["show", "quickstrat"], "the presets are quickstart"),
        (["compare", "nowhere"], "nowhere"),
        (["compare", "nowhere", "--figure", "x.gif"], "figure x.gif ends in '.gif'; wanted .png, .svg or .pdf"),
        (["compare", "nowhere", "--figure", "x"], "wanted .png, .svg or .pdf"),
        (["timeline", "nowhere", "--out", "x.gif"], "wanted .png, .svg or .pdf"),
        (["run", "quickstart-paper", "--set", "rho=0.5"], "did you mean planning.rho=0.5?"),
        (["run", "quickstart-paper", "--resume", "--force"], "wanted one of them"),
        (["compare", "nowhere", "--target", "93"], "--target is 93; it should be greater than 0 and at most 1"),
        (["compare", "nowhere", "--target", "1.5"], "--target is 1.5"),
        (["compare", "nowhere", "--target", "0"], "--target is 0"),
        (["compare", "nowhere", "--target", "nan"], "--target is nan"),
        (["run", "quickstart-paper", "--resume", "--out", "nowhere"], "there is no run in it to resume"),
        (["run", "quickstart-paper", "--out", "/proc/nowhere"], "cannot be written to"),
        (
            ["run", "quickstart-paper", "--set", "network.write_trace=/proc/x.csv", "--out", "r"],
            "which cannot be written",
        ),
        (["run", "quickstart-paper", "-q", "--set", "learning.model=torch.nn:ReLU"], "no trainable parameters"),
    ],
)
def test_bad_input_is_one_clear_line_and_status_2(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.rglob("*.jsonl"))


def test_missing_data_says_exactly_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke("run", "paper-mnist", "--data-dir", tmp_path / "empty")
    assert result.exit_code == 2
    assert "--data-dir" in result.stderr


def test_a_full_folder_is_refused_naming_resume(tmp_path):
    assert invoke("run", "quickstart-paper", *SMALL, "--rounds", 1, "--out", tmp_path / "r", "-q").exit_code == 0
    result = invoke("run", "quickstart-paper", *SMALL, "--rounds", 1, "--out", tmp_path / "r")
    assert result.exit_code == 2
    assert "--resume" in result.stderr


@pytest.mark.parametrize("system", ["hpfl", "shpfl"])
def test_a_demo_in_a_full_folder_says_what_a_demo_can_do(tmp_path, system):
    (tmp_path / system).mkdir()
    (tmp_path / system / "config.toml").write_text("")
    result = invoke("demo", "--out", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "choose another --out" in result.stderr
    assert "--resume" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == [system]


def test_show_prints_toml_that_runs(tmp_path):
    shown = invoke("show", "quickstart-paper", "--set", "training.rounds=1", *SMALL)
    (tmp_path / "mine.toml").write_text(shown.stdout)
    assert "bandwidth_hz = 5000000.0 # [Hz]" in shown.stdout
    assert invoke("run", tmp_path / "mine.toml", "--out", tmp_path / "r", "-q").exit_code == 0


def test_presets_lists_presets_systems_and_planners():
    text = invoke("presets").stdout
    assert all(
        name in text
        for name in ("quickstart", "quickstart-paper", "paper-mnist", "paper-cifar10", "shpfl", "joint", "alternating")
    )


def test_compare_prints_one_row_per_run_and_draws(tmp_path):
    for name in ("full", "random"):
        invoke(
            "run",
            "quickstart-paper",
            *SMALL,
            "--rounds",
            4,
            "-q",
            "--out",
            tmp_path / name,
            "--set",
            f"planning.planner={name}",
        )
    folders = [tmp_path / "full", tmp_path / "random"]
    result = invoke("compare", *folders, "--figure", tmp_path / "c.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "c.png").stat().st_size > 10_000
    rows = [
        json.loads(line)
        for line in invoke("compare", *folders, "--json", "--figure", tmp_path / "d.png").stdout.splitlines()
    ]
    assert [row["planner"] for row in rows] == ["full", "random"]


def test_help_says_which_accuracy_runs_are_timed_to():
    text = " ".join(invoke("compare", "--help").stdout.replace("│", " ").split())
    assert "the configured one if all have it and reach it, else the highest that all reach" in text


def test_help_of_every_command_teaches():
    for name in ("run", "show", "presets", "compare", "plan", "demo"):
        result = invoke(name, "--help")
        assert result.exit_code == 0
        assert len(result.stdout) > 200
