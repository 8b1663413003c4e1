"""Trackers, by reading back what they wrote: all rounds, each once, also of runs that were broken off and went on."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wandb_files import histories, records

import hpfl
from hpfl.config import ConfigError
from hpfl.trackers import tracking
from hpfl.training import WATCHERS

SMALL = [
    "network.edges=2",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[5, 9]",
    "evaluation.test_samples=6",
    "evaluation.every=2",
    "planning.planner=full",
    "training.rounds=5",
    "training.checkpoint_every=2",
]
Points = dict[str, list[tuple[int, float]]]
"""Figures by name: rounds and values."""


def run(folder: Path, *watchers: str, hooks: hpfl.Hooks | None = None, **how: object) -> hpfl.RunResult:
    named = [name if "=" in name else f'"{name}"' for name in watchers]
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, f"training.watchers=[{', '.join(named)}]"])
    return hpfl.run(config, out=folder, figures=False, hooks=hooks or hpfl.Hooks(), **how)


def tensorboard(folder: Path) -> Points:
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = module.EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    found.Reload()
    points = {name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]}
    return {name: those for name, those in points.items() if those}  # what was taken back leaves its name


def mlflow(folder: Path) -> Points:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"file://{folder.parent / 'mlruns'}")
    (one,) = client.search_runs([client.get_experiment_by_name("hpfl").experiment_id])
    assert one.info.status == "FINISHED"
    assert one.info.run_name == folder.name
    assert one.data.params["planning.planner"] == "full"
    names = one.data.metrics
    return {name: [(m.step, m.value) for m in client.get_metric_history(one.info.run_id, name)] for name in names}


def wandb(folder: Path) -> Points:
    files = sorted((folder / "wandb").glob("offline-run-*/run-*.wandb"))
    runs = [record.run for path in files for record in records(path) if record.HasField("run")]
    assert len({(one.run_id, one.project, one.display_name) for one in runs}) == 1
    assert (runs[0].project, runs[0].display_name) == ("hpfl", folder.name)
    settings = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert settings["planning"]["planner"] == "full"
    points: Points = {}
    for row in (row for path in files for row in histories(path)):
        for name in row.keys() - {"_step", "_timestamp", "_runtime"}:
            points.setdefault(name, []).append((row["_step"], row[name]))
    return points


READERS: dict[str, Callable[[Path], Points]] = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}


@pytest.fixture(params=READERS)
def tracker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    package = WATCHERS.part(request.param).made.package
    pytest.importorskip(package, reason=f"{package} is no part of the test environment: pip install it to run this")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # a store of files needs no tables to be made first
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path / 'mlruns'}")
    return request.param


def expected(result: hpfl.RunResult) -> Points:
    points: Points = {}
    for row in result.rounds:
        for name, value in row.items():
            if name != "round" and isinstance(value, int | float) and math.isfinite(value):
                points.setdefault(name, []).append((row["round"], value))
    return points


def same(found: Points, wanted: Points) -> None:
    assert found.keys() == wanted.keys()
    for name, points in wanted.items():
        assert [step for step, _ in found[name]] == [step for step, _ in points], name
        if name != "planning_s":  # is measured, and another when a round is played again
            assert [value for _, value in found[name]] == pytest.approx([value for _, value in points], rel=1e-6), name


@pytest.mark.filterwarnings("ignore")  # of the packages, about themselves
def test_every_figure_of_every_round_is_there_once_also_after_a_run_was_broken_off(tmp_path, tracker, monkeypatch):
    monkeypatch.setattr(tracking, "PAUSE_S", 0.0)  # round 3 is told before the run is broken off, and played again
    notes: list[str] = []

    def broken(record) -> None:
        if record.round == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "one", tracker, hooks=hpfl.Hooks(on_round=broken, note=notes.append))
    result = run(tmp_path / "one", tracker, hooks=hpfl.Hooks(note=notes.append), resume=True)
    assert len(result.rounds) == 5
    assert [note for note in notes if "watcher" in note] == []
    same(READERS[tracker](tmp_path / "one"), expected(result))


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_did_without_is_told_from_its_beginning_and_one_begun_anew_replaces_the_old(tmp_path):
    pytest.importorskip("tensorboardX")
    stopped = hpfl.Hooks(should_stop=lambda: True)
    assert len(run(tmp_path / "one", hooks=stopped).rounds) == 1
    result = run(tmp_path / "one", "tensorboard", resume=True)
    same(tensorboard(tmp_path / "one"), expected(result))
    anew = run(tmp_path / "one", "tensorboard", hooks=stopped, force=True)
    same(tensorboard(tmp_path / "one"), expected(anew))


def test_names_and_places_are_as_said(tmp_path):
    pytest.importorskip("tensorboardX")
    for more in ("", ', run_name="mine"'):
        run(tmp_path / "one", f'{{name="tensorboard", folder="{tmp_path / "logs"}"{more}}}', force=True)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["mine", "one"]
    assert not (tmp_path / "one" / "tensorboard").exists()


@pytest.mark.parametrize("name", READERS)
def test_a_package_that_is_missing_is_said_with_its_extra_before_anything_is_done(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, WATCHERS.part(name).made.package, None)
    monkeypatch.setattr(tracking, "find_spec", lambda package: None)
    with pytest.raises(ConfigError, match=rf"watcher {name} needs \w+: pip install 'hpfl\[{name}\]'"):
        run(tmp_path / "one", name)
    assert not (tmp_path / "one").exists()


def test_a_tracker_that_fails_is_said_once_and_changes_nothing(tmp_path):
    pytest.importorskip("tensorboardX")
    notes: list[str] = []
    (tmp_path / "file").write_text("no folder")
    hooks = hpfl.Hooks(note=notes.append)
    result = run(tmp_path / "one", f'{{name="tensorboard", folder="{tmp_path / "file"}"}}', hooks=hooks)
    assert result.completed
    (note,) = [note for note in notes if "watcher" in note]
    assert note.startswith("watcher TensorBoard failed in `started` (")
    assert note.endswith("is told nothing more; the run goes on")


@pytest.mark.parametrize("note", ["", "[]", '{"last": "3"}', '{"last": 3}'])
def test_a_note_that_is_damaged_begins_a_new_run(tmp_path, note):
    pytest.importorskip("tensorboardX")
    run(tmp_path / "one", "tensorboard", hooks=hpfl.Hooks(should_stop=lambda: True))
    (tmp_path / "one" / tracking.NOTES / "tensorboard.json").write_text(note)
    result = run(tmp_path / "one", "tensorboard", resume=True)
    same(tensorboard(tmp_path / "one"), expected(result))
