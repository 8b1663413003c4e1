from dataclasses import replace

from typer.testing import CliRunner

from hpfl.cli import app
from hpfl.studies import time_to_accuracy as study

runner = CliRunner()


def test_a_quick_study_leaves_its_tables(tmp_path, monkeypatch):
    small = replace(study.QUICK["mnist-mini"], rounds=4, planners=("fastest", "random-1"))
    monkeypatch.setattr(study, "QUICK", {"mnist-mini": small})
    command = ["reproduce", "time-to-accuracy", "--quick", "--seeds", "1", "--device", "cpu", "--out", str(tmp_path)]
    answer = runner.invoke(app, [*command, "--only", "auto", "--only", "fastest/"])
    assert answer.exit_code == 0, answer.output
    for name in ("runs", "cells", "speedups"):
        assert (tmp_path / f"{name}.csv").exists()
        assert (tmp_path / f"{name}.json").exists()


def test_an_unknown_study_or_part_is_refused_in_one_line(tmp_path):
    answer = runner.invoke(app, ["reproduce", "fig99"])
    assert answer.exit_code == 2
    answer = runner.invoke(app, ["reproduce", "time-to-accuracy", "--only", "nothing", "--out", str(tmp_path)])
    assert answer.exit_code == 2
