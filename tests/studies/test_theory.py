"""`hpfl theory` on small runs: estimates against dense matrices, the replay against the records, the command."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hpfl.cli import app
from hpfl.config import load
from hpfl.experiment import run_experiment
from hpfl.learning import make_task
from hpfl.learning.batches import Samples
from hpfl.learning.curvature import Landscape
from hpfl.reporting.store import OutputError, read_rounds
from hpfl.rng import Streams
from hpfl.studies import theory, theory_constants
from hpfl.studies.theory_constants import Estimator
from hpfl.studies.theory_replay import read_run
from hpfl.studies.theory_report import bound_columns, departures, summary, table
from results_table import explained_elsewhere

SMALL = (
    "network.edges=4",
    "network.ues_per_edge=2",
    "data.samples_per_ue=[5, 9]",
    "evaluation.test_samples=5",
    "planning.max_edges=2",
    "planning.planner=random",
    "training.rounds=6",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("theory") / "small"
    run_experiment(load("quickstart-paper", overrides=SMALL), out=out, figures=False, device="cpu")
    return out


@pytest.fixture(scope="module")
def findings(folder: Path) -> theory.Findings:
    return theory.examine(folder, theory.TheorySettings(points=4, device="cpu"))


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_replay_repeats_the_recorded_losses_exactly(folder: Path, findings: theory.Findings) -> None:
    assert findings.first_difference is None
    recorded = [row["meta_loss"] for row in read_rounds(folder)]
    assert findings.course.loss[1:].tolist() == pytest.approx(recorded, rel=1e-6)


def test_a_record_that_is_not_the_runs_own_is_found_out(folder: Path, tmp_path: Path) -> None:
    rows = read_rounds(folder)
    rows[1]["meta_loss"] = math.nextafter(rows[1]["meta_loss"], 9.0)
    (tmp_path / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
    (tmp_path / "config.toml").write_text((folder / "config.toml").read_text())
    found = theory.examine(tmp_path, theory.TheorySettings(points=2, ues=2, device="cpu"))
    assert found.first_difference == (2, ["meta_loss"])
    assert (found.rounds, found.num_ues) == (2, 2)
    assert summary(found)["completed"]


def test_stale_updates_are_booked_with_the_model_they_were_computed_on(folder: Path, findings: theory.Findings) -> None:
    course, rows = findings.course, read_rounds(folder)
    assert course.staleness.max() > 0
    for number, row in enumerate(rows):
        assert np.flatnonzero(course.aggregated[number]).tolist() == row["aggregated"]
        assert course.staleness[number, row["aggregated"]].tolist() == row["staleness"]
        used = course.edge_gradient_sq[course.base_round[number], np.arange(4)][course.aggregated[number]]
        assert used.sum() == pytest.approx(row["importance"], rel=1e-4)


def test_the_step_taken_is_the_mean_of_the_updates(findings: theory.Findings) -> None:
    course = findings.course
    edges = np.arange(4)
    mean = course.mean_over_aggregated(course.edge_gradient_sq[course.base_round, edges])
    assert (course.direction_sq <= mean * (1 + 1e-4)).all()
    np.testing.assert_allclose(course.outer_lr, 0.07)


def test_lemma_1_and_the_corrected_bounds_hold_on_a_small_run(findings: theory.Findings) -> None:
    bounds = bound_columns(findings)
    for name in ("smoothness", "corrected", "printed"):
        assert (findings.course.change <= bounds[name]).all(), name
    assert (bounds["smoothness"] <= bounds["corrected"]).all()


def test_a_stop_leaves_the_rounds_until_then(folder: Path) -> None:
    watching = theory.Watching(should_stop=lambda: True)
    found = theory.examine(folder, theory.TheorySettings(points=2, device="cpu"), watching)
    assert found.rounds == 1
    assert not summary(found)["completed"]
    assert len(table(found)["round"]) == 1


@pytest.mark.parametrize(
    ("count", "rounds", "expected"),
    [(2, 10, (0, 10)), (4, 10, (0, 1, 2, 10)), (6, 10, (0, 1, 2, 5, 7, 10)), (12, 2, (0, 1, 2)), (5, 1, (0, 1))],
)
def test_points_are_the_first_few_the_last_and_some_between(count: int, rounds: int, expected: tuple[int, ...]) -> None:
    assert theory.points(count, rounds) == expected


def smooth_task(seed: int = 3) -> tuple[Any, Samples, np.ndarray]:
    """Eight UEs of a small smooth model in float64, with different shards."""
    generator = torch.Generator().manual_seed(seed)
    sizes = np.array([4, 6, 3, 5, 7, 4, 5, 6])
    inputs = torch.randn(int(sizes.sum()), 3, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (len(inputs),), generator=generator)
    task = make_task(lambda: torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)))

    class Shards:
        offsets, start, length = np.arange(9), np.cumsum(sizes) - sizes, sizes

    samples = Samples.on(torch.device("cpu"), torch.float64, inputs=inputs, targets=targets, shards=Shards())
    return task.to(torch.device("cpu"), torch.float64), samples, sizes


def plain_derivatives(point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients and Hessians of all UEs, one after the other."""
    task, samples, sizes = smooth_task()
    ends = np.cumsum(sizes)
    gradients, hessians = [], []
    for first, end in zip(ends - sizes, ends, strict=True):

        def loss(p: torch.Tensor, rows: slice = slice(int(first), int(end))) -> torch.Tensor:
            return task.loss(task.outputs(p, samples.inputs[rows]), samples.targets[rows]).mean()

        gradients.append(torch.autograd.functional.jacobian(loss, point))
        hessians.append(torch.autograd.functional.hessian(loss, point))
    return torch.stack(gradients), torch.stack(hessians)


def test_estimates_are_those_of_dense_matrices_from_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory_constants, "RANK", 1000)  # all of the mean Hessian
    monkeypatch.setattr(theory_constants, "_MOST_STEPS", 200)
    task, samples, sizes = smooth_task()
    ues, alpha = np.arange(len(sizes)), 0.3
    landscape = Landscape.of(task, samples, ues=ues, shares=np.ones(len(ues)))
    point = task.initial_parameters(Streams(1).at("w")).double()
    estimator = Estimator(landscape, np.repeat([0, 1], 4), alpha, 0.1, Streams(0))
    found = estimator.at(1, point, point + 0.01)

    gradients, hessians = plain_derivatives(point)
    mean = gradients.mean(0)
    adapted = torch.stack([plain_derivatives(point - alpha * own)[0][ue] for ue, own in enumerate(gradients)])
    shared = plain_derivatives(point - alpha * mean)[0]
    meta = adapted - alpha * (hessians @ adapted.unsqueeze(2)).squeeze(2)

    def apart(rows: torch.Tensor) -> float:
        return float((rows - rows.mean(0)).square().sum(1).mean().sqrt())

    unlike = torch.linalg.matrix_norm(hessians - hessians.mean(0), ord=2)
    norms = torch.linalg.matrix_norm(hessians, ord=2)
    constants = found.constants
    assert constants.gradient_bound == pytest.approx(
        max(float(rows.norm(dim=1).max()) for rows in (gradients, adapted, shared))
    )
    assert constants.gradient_diversity == pytest.approx(max(apart(gradients), apart(shared)))
    assert found.meta_diversity == pytest.approx(apart(meta))
    assert found.edge_diversity == pytest.approx(max(apart(meta[:4]), apart(meta[4:])))
    assert found.hessian_tail == 0.0
    assert constants.smoothness == pytest.approx(float(norms.max()), rel=0.05)
    assert constants.hessian_diversity == pytest.approx(float(unlike.square().mean().sqrt()), rel=0.05)
    assert constants.hessian_diversity <= float(unlike.square().mean().sqrt()) * (1 + 1e-9)
    step = plain_derivatives(point + 0.01)[1] - hessians
    largest = float(torch.linalg.matrix_norm(step, ord=2).max()) / (0.01 * len(point) ** 0.5)
    assert 0.7 * largest < found.hessian_change["last step"] <= largest * (1 + 1e-9)


def test_another_method_an_uplink_and_a_rule_of_the_edges_are_departures(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    parts = ("learning.uplink=ue_and_rule_parts:Coarse", "training.edge_combine=ue_and_rule_parts:momentum")
    own = ("learning.method=fedavg", *parts)
    assert [text.split(";")[0] for text in departures(load("quickstart-paper", overrides=own))] == [
        "method fedavg",
        "updates pass through an uplink's steps",
        "edges combine by ue_and_rule_parts:momentum",
    ]


def test_departures_name_what_the_theorem_is_not_about() -> None:
    assert departures(load("quickstart-paper")) == []
    other = load("quickstart-paper", overrides=["learning.batch_size=4", "learning.local_steps=2", "life.leave=0.1"])
    assert [text.split(";")[0] for text in departures(other)] == [
        "2 local steps",
        "mini-batches of 4",
        "UEs come, go or are sampled",
    ]


def test_the_command_leaves_table_summary_and_pictures(folder: Path, tmp_path: Path) -> None:
    result = invoke("theory", folder, "--points", 2, "--ues", 4, "--device", "cpu", "--out", tmp_path / "t", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "t" / "theory.json").read_text())
    assert json.loads(result.stdout) == found
    assert (found["rounds"], found["ues_estimated"], found["replay_identical"]) == (6, 4, True)
    with (tmp_path / "t" / "theory.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == explained_elsewhere("theory.csv")
    assert set(found) == explained_elsewhere("theory.json")
    held = sum(float(row["loss_change"]) <= float(row["corrected_bound"]) for row in rows)
    assert found["bounds"]["corrected"]["held"] == held
    assert (tmp_path / "t" / "theory.png").stat().st_size > 10_000
    assert "<svg" in (tmp_path / "t" / "theory.svg").read_text()


def test_the_command_says_that_constants_are_lower_bounds(folder: Path, tmp_path: Path) -> None:
    result = invoke("theory", folder, "--points", 2, "--ues", 2, "--device", "cpu", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert "a lower bound of what the paper assumes for all parameters" in said
    assert "The replay repeated 6 of 6 records exactly." in said


def test_what_is_no_simulated_run_is_refused_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    records, config = (folder / "rounds.jsonl").read_text(), (folder / "config.toml").read_text()
    for name, files, said in (
        ("nowhere", None, "is not a folder of results"),
        ("empty", {}, "rounds.jsonl is missing"),
        ("unbegun", {"rounds.jsonl": "", "config.toml": config}, "has no rounds yet"),
        ("deployed", {"rounds.jsonl": records, "config.toml": config, "run-id": "0"}, "holds a deployed run"),
        ("unconfigured", {"rounds.jsonl": records}, "config.toml is missing"),
    ):
        if files is not None:
            (tmp_path / name).mkdir()
        for file, content in (files or {}).items():
            (tmp_path / name / file).write_text(content)
        with pytest.raises(OutputError, match=said):
            read_run(tmp_path / name)
        result = invoke("theory", tmp_path / name)
        assert (result.exit_code, said in " ".join(result.output.split())) == (2, True), result.output


def test_an_out_that_is_a_file_is_refused_before_any_work(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = invoke("theory", folder, "--out", tmp_path / "file")
    assert result.exit_code == 2
    assert "is a file; wanted a folder" in " ".join(result.output.split())
