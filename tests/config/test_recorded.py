"""Configurations, files and runs of the version before parts had options are what they were."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import record_runs
import torch

import hpfl
from hpfl.config import deciding, differences, fingerprint, load, to_toml

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded_configurations.json").read_text())
SAVED = [case for case in RECORDED if "saved" in case]


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


def loaded(case):
    """What was recorded as `quickstart` is `quickstart-paper` now, whose planner's old name means its next version."""
    if case["source"] != "quickstart":
        return load(case["source"], system=case["system"], overrides=case["overrides"])
    named = ["planning.planner=fastest"] if case["system"] in {None, "hfl", "hpfl"} else []
    return load("quickstart-paper", system=case["system"], overrides=[*named, *case["overrides"]])


def test_every_recorded_configuration_has_the_fingerprint_it_had():
    assert len(RECORDED) > 80
    changed = [case["overrides"] for case in RECORDED if fingerprint(loaded(case)) != case["fingerprint"]]
    assert changed == []


@pytest.mark.parametrize("case", SAVED, ids=lambda case: " ".join([case["source"], *case["overrides"]]))
def test_an_old_file_is_the_configuration_it_was(case, tmp_path):
    path, text = tmp_path / "config.toml", "\n".join(case["saved"])
    path.write_text(text)
    old, now = load(path), loaded(case)
    assert fingerprint(old) == case["fingerprint"]
    assert old == now
    assert deciding(tomllib.loads(text)) == deciding(tomllib.loads(to_toml(now)))
    assert differences(now, tomllib.loads(text)) == ""


@pytest.mark.parametrize("name", sorted(record_runs.RUNS))
def test_an_old_run_goes_on_to_the_same_model(name, tmp_path):
    folder = shutil.copytree(HERE / "recorded_runs" / name, tmp_path / name)
    result = hpfl.run(load(folder / "config.toml"), out=folder, resume=True, figures=False, hooks=hpfl.Hooks())
    whole = json.loads((HERE / "recorded_runs" / f"{name}.json").read_text())
    assert result.completed
    assert len(result.rounds) == len(whole["rounds"]) == 8
    for key, value in whole["model"].items():
        assert torch.equal(result.model[key], torch.tensor(value))
