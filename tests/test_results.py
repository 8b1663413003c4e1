import json

import numpy as np
import pytest
from typer.testing import CliRunner

import hpfl
from hpfl.cli import app
from hpfl.data.sources import DATASETS, Dataset, DatasetSpec
from hpfl.reporting.compare import _cells, compare_runs
from hpfl.reporting.store import read_rounds, read_summary
from hpfl.reporting.targets import LOSS, Target
from hpfl.reporting.timeline import read_timeline
from results_table import explained, flat

SMALL = [
    "network.edges=3",
    "network.ues_per_edge=2",
    "data.samples_per_ue=[5, 9]",
    "evaluation.test_samples=5",
    "evaluation.every=1",
    "planning.max_edges=2",
    "training.rounds=4",
]
LIVELY = ["training.clock=event", "life.leave=0.3", "life.ue_failure=0.2", "life.edge_death=0.2"]
LINE = ["data.dataset=line", "learning.loss=mse", "data.partitioner=iid", "learning.outer_lr=0.01"]


def line_of_five(folder, progress):
    """Regression: the target is a weighted sum of five features."""
    inputs = np.random.default_rng(0).normal(size=(200, 5)).astype(np.float32)
    targets = inputs @ np.arange(5, dtype=np.float32)
    return Dataset("line", inputs, targets, None, inputs[:50], targets[:50], sample_bits=160)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs of classes, of regression, and of a network that lives, and one of another seed."""
    out = tmp_path_factory.mktemp("runs")
    kinds = {"classes-0": [], "classes-1": ["training.seed=1"], "line": LINE, "lively": LIVELY}
    with pytest.MonkeyPatch.context() as patch:
        spec = DatasetSpec("line", None, (5,), num_train=200, num_test=50, sample_bits=160, load=line_of_five)
        patch.setitem(DATASETS._parts, "line", DATASETS._made("line", spec, "elsewhere", None, {}))
        for name, changes in kinds.items():
            hpfl.run(hpfl.load("quickstart-paper", overrides=[*SMALL, *changes]), out=out / name, figures=False)
    return [out / name for name in kinds]


def test_every_column_of_rounds_is_explained_and_none_that_is_not_there(folders):
    for folder in folders:
        assert set(read_rounds(folder)[-1]) == explained("rounds.jsonl")


def test_every_column_of_the_timeline_is_explained(folders):
    for folder in folders:
        assert set(read_timeline(folder)[0]) == explained("timeline.jsonl")


def test_every_column_of_the_scenes_is_explained(folders):
    wanted = explained("scenes.jsonl")
    for folder in folders:
        scenes = [json.loads(line) for line in (folder / "scenes.jsonl").read_text().splitlines()]
        assert [scene["round"] for scene in scenes] == [record["round"] for record in read_rounds(folder)]
        absent = {name for scene in scenes for name, value in scene.items() if value is None}
        found = set().union(*map(flat, scenes)) - (absent - {"uploads"})
        assert found == {one for one in wanted if not one.startswith("broadcast.")}


def test_every_column_of_ues_is_explained(folders):
    for folder in folders:
        assert set((folder / "ues.csv").read_text().splitlines()[0].split(",")) == explained("ues.csv")


def test_every_key_of_the_summary_is_explained(folders):
    for folder in folders:
        assert flat(read_summary(folder)) == explained("summary.json")


@pytest.mark.parametrize("name", ["rounds.jsonl", "ues.csv", "summary.json"], ids=lambda name: name.partition(".")[0])
def test_what_only_some_runs_have_is_explained_too(some_runs, name):
    found = {
        "rounds.jsonl": lambda folder: set(read_rounds(folder)[-1]),
        "ues.csv": lambda folder: set((folder / "ues.csv").read_text().splitlines()[0].split(",")),
        "summary.json": lambda folder: flat(read_summary(folder)),
    }
    names = set().union(*map(found[name], some_runs))
    assert names == explained(name) | explained(name, sometimes=True)


@pytest.fixture(scope="module")
def some_runs(tmp_path_factory):
    """Newcomers and an attack that has an aim of its own; and privacy."""
    kinds = {
        "others": ["data.held_out_ues=2", "hostile.attack=backdoor", "hostile.ues=[0]"],
        "private": ["privacy.mechanism=gaussian"],
    }
    out = tmp_path_factory.mktemp("some")
    for name, changes in kinds.items():
        hpfl.run(hpfl.load("quickstart-paper", overrides=[*SMALL, *changes]), out=out / name, figures=False)
    return [out / name for name in kinds]


def test_every_heading_of_a_comparison_is_explained(folders):
    shown = set()
    for chosen, target in ((folders[:2] + folders[3:], Target(0.05)), (folders[2:3], Target(0.05, LOSS))):
        comparison = compare_runs(chosen, target=target)
        headings = {heading.replace("\n", " ") for heading in _cells(comparison.rows[0], comparison)}
        shown |= {heading.replace(target.short, "TARGET") for heading in headings}
    assert shown == explained("hpfl compare")


def test_every_key_of_a_comparison_as_json_is_explained(folders, tmp_path):
    chosen = ["--target", "0.01", "--figure", tmp_path / "c.svg", *folders[:2], *folders[3:]]
    done = CliRunner().invoke(app, ["compare", "--json", *map(str, chosen)])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(row["runs"]) for row in rows] == [2, 1]
    of_a_run = set(rows[0]["runs"][0]) - {"label", "seed", "worse_off_than_local"}
    assert of_a_run <= explained("summary.json")
    assert all(set(row.pop("intervals")) <= of_a_run for row in rows)
    keys = set().union(*(flat(row) for row in rows)) - {"time_ratio"} | {"intervals"}
    assert keys - of_a_run == explained("hpfl compare --json")
