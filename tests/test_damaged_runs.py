"""Whatever is cut, flipped or removed in a run's folder, it goes on to the same bits or is refused by name."""

import json
import random
import re
import shutil
from collections import Counter
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

import hpfl
from damage import struck
from hpfl.cli import app
from hpfl.cli_errors import REFUSALS
from hpfl.reporting.checkpoint import CheckpointError
from hpfl.reporting.config_file import refuse_changed

SMALL = [
    "network.edges=2",
    "network.ues_per_edge=2",
    "data.samples_per_ue=[5, 15]",
    "evaluation.test_samples=10",
    "evaluation.every=3",
    "planning.max_edges=2",
    "training.rounds=8",
    "training.checkpoint_every=2",
]
KEPT = ("model.safetensors", "ues.csv")


@dataclass
class Told:
    """How a resume ended."""

    refusal: str
    notes: list


def begun(folder, *, last, figures=False):
    """A run that was stopped after a round, or is done."""
    seen = []
    config = hpfl.load("quickstart-paper", overrides=SMALL)
    hooks = hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == last)
    hpfl.run(config, out=folder, figures=figures, hooks=hooks)
    return folder


def resumed(folder) -> Told:
    """Go on as `hpfl run FOLDER/config.toml --resume` does, without pictures."""
    notes = []
    try:
        refuse_changed(folder / "config.toml")
        config = hpfl.load(folder / "config.toml")
        hpfl.run(config, out=folder, resume=True, figures=False, hooks=hpfl.Hooks(note=notes.append))
    except REFUSALS as error:
        return Told(str(error), notes)
    return Told("", notes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("whole") / "run", last=8)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return begun(tmp_path_factory.mktemp("stopped") / "run", last=5)


def records(folder):
    """The lines, but for how long planning took on this machine."""
    lines = (folder / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    return [re.sub(rb'"planning_s": [^,}]*', b"", line) for line in lines]


def copied(folder, place):
    shutil.copytree(folder, place)
    return place


def assert_exact_or_named(folder, whole, hit, told):
    """The bits of the run that nothing happened to, or a sentence with the file in it."""
    if told.refusal:
        assert hit.split("/")[-1].split()[-1] in told.refusal or hit.split()[-1].split("/")[0] in told.refusal, hit
        assert any(way in told.refusal for way in ("put", "name the", "choose another")), told.refusal
        return
    assert records(folder) == records(whole), hit
    for name in KEPT:
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), (hit, name)
    for name in ("timeline.jsonl", "scenes.jsonl"):
        drawn = folder / name
        same = drawn.exists() and drawn.read_bytes() == (whole / name).read_bytes()
        assert same or any(name in note for note in told.notes), (hit, name)


@pytest.mark.parametrize("seed", range(12))
def test_a_struck_run_goes_on_to_the_same_bits_or_is_refused_by_name(stopped, whole, tmp_path, seed):
    folder, draw = copied(stopped if seed % 3 else whole, tmp_path / "run"), random.Random(seed)
    hit = struck(folder, draw)
    assert_exact_or_named(folder, whole, hit, resumed(folder))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_struck_runs_go_on_to_the_same_bits_or_are_refused_by_name(tmp_path, monkeypatch):
    whole = begun(tmp_path / "whole", last=8, figures=True)
    folders = (whole, begun(tmp_path / "stopped", last=5))
    ends, draw, faults = Counter(), random.Random(22), []
    monkeypatch.setattr("hpfl.experiment.draw_at_the_end", lambda folder, note: None)  # nothing is read from pictures
    for number in range(200):
        folder = copied(folders[bool(number % 3)], tmp_path / "run")
        hit = struck(folder, draw)
        done = CliRunner().invoke(app, ["run", str(folder / "config.toml"), "--resume", "--out", str(folder)])
        said = [line for line in done.output.splitlines() if line.startswith("hpfl: ")]
        try:
            assert done.exit_code in {0, 2}, (done.output, done.exception)
            assert len(said) == (done.exit_code == 2), said
            assert_exact_or_named(folder, whole, hit, Told("".join(said), [done.output]))
            ends["refused" if said else "exact"] += 1
        except (AssertionError, OSError) as error:
            faults.append(f"{hit}: {error}")
        shutil.rmtree(folder)
    print(dict(ends))
    assert not faults


def test_a_cut_summary_of_a_finished_run_is_written_again_whatever_its_folder_is_called(whole, tmp_path):
    folder = copied(whole, tmp_path / "run")  # as a deployment's is
    path = folder / "summary.json"
    before = json.loads(path.read_bytes())
    path.write_bytes(path.read_bytes()[:9])
    assert not resumed(folder).refusal
    after = json.loads(path.read_bytes())
    assert after.keys() == before.keys()
    assert after["final_meta_loss"] == before["final_meta_loss"]


def flipped(path, at, bit=0):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def test_a_digit_that_changed_in_the_records_is_found(stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    path = folder / "rounds.jsonl"
    flipped(path, path.read_bytes().index(b'"latency_s": ') + 15)
    before = path.read_bytes()
    told = resumed(folder)
    assert "rounds.jsonl is not what was written up to round 5" in told.refusal
    assert "begin anew with --force or in another --out" in told.refusal
    assert path.read_bytes() == before


def test_a_run_without_its_checkpoints_is_refused_and_keeps_its_records(stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    shutil.rmtree(folder / "checkpoints")
    before = (folder / "rounds.jsonl").read_bytes()
    told = resumed(folder)
    assert "rounds.jsonl has 5 rounds, and checkpoints/ beside it has no checkpoint to go on from" in told.refusal
    assert (folder / "rounds.jsonl").read_bytes() == before


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again_and_says_so(whole, tmp_path):
    seen = []

    def killed(record):
        seen.append(record)
        if len(seen) == 2:
            raise KeyboardInterrupt

    config = hpfl.load("quickstart-paper", overrides=SMALL)
    with pytest.raises(KeyboardInterrupt):
        hpfl.run(config, out=tmp_path / "run", figures=False, hooks=hpfl.Hooks(on_round=killed))
    told = resumed(tmp_path / "run")
    assert told.notes[0] == "no checkpoint was due yet: the 2 rounds in rounds.jsonl are run again"
    assert records(tmp_path / "run") == records(whole)


def test_a_longer_run_in_a_changed_configuration_is_refused_and_by_an_option_is_not(stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    file = folder / "config.toml"
    file.write_text(file.read_text().replace("rounds = 8", "rounds = 9"))
    assert "config.toml is not as it was written; give changes with --set" in resumed(folder).refusal
    file.write_text(file.read_text().partition("\n")[2])
    assert not resumed(folder).refusal
    assert len((folder / "rounds.jsonl").read_bytes().splitlines()) == 9


def test_a_checkpoint_without_marks_is_gone_on_from(stopped, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("hpfl.reporting.journal.save_checkpoint", without_marks)
    folder = begun(tmp_path / "run", last=5)
    monkeypatch.undo()
    told = resumed(folder)
    assert told.notes == ["resuming after round 5"]
    assert records(folder) == records(whole)


def without_marks(folder, state, *, fingerprint, marks, rows):
    """As earlier versions wrote them."""
    from hpfl.reporting.checkpoint import save_checkpoint

    return save_checkpoint(folder, state, fingerprint=fingerprint)


def test_a_run_that_is_prolonged_and_killed_at_once_goes_on(stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    assert not resumed(folder).refusal
    longer = hpfl.load("quickstart-paper", overrides=[*SMALL, "training.rounds=11"])

    def killed(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hpfl.run(longer, out=folder, resume=True, figures=False, hooks=hpfl.Hooks(on_round=killed))
    hpfl.run(longer, out=folder, resume=True, figures=False, hooks=hpfl.Hooks())
    hpfl.run(longer, out=tmp_path / "straight", figures=False, hooks=hpfl.Hooks())
    assert records(folder) == records(tmp_path / "straight")


def test_no_checkpoint_that_is_whole_is_a_refusal_that_says_what_to_do(stopped, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(b"")
    config = hpfl.load(folder / "config.toml")
    with pytest.raises(CheckpointError, match=r"is damaged .*; put what is damaged back from a copy, or begin anew"):
        hpfl.run(config, out=folder, resume=True, figures=False)


def test_scenes_that_are_damaged_before_every_checkpoint_are_put_away_and_the_timeline_stays(stopped, whole, tmp_path):
    folder = copied(stopped, tmp_path / "run")
    flipped(folder / "scenes.jsonl", 40)
    told = resumed(folder)
    assert told.refusal == ""
    assert any("scenes.jsonl is damaged; it was put away as scenes.jsonl.damaged-1" in note for note in told.notes)
    assert (folder / "timeline.jsonl").read_bytes() == (whole / "timeline.jsonl").read_bytes()
    scenes = (folder / "scenes.jsonl").read_bytes().splitlines()
    assert [json.loads(scene)["round"] for scene in scenes] == [6, 7, 8]
    assert json.loads(scenes[0])["edge_places"] is not None
    assert json.loads(scenes[1])["edge_places"] is None
