"""What is wrong with a search is said in a sentence before anything runs."""

import sys

import pytest
from tune_studies import SPACE, small

from hpfl.cli import main
from hpfl.config import ConfigError
from hpfl.tuning.plan import planned_search

pytest.importorskip("optuna", reason="the extra `tune` is not installed")

LR = "learning.outer_lr"


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ({"space": {"learning.outer_rl": [1]}}, "learning.outer_rl.*did you mean learning.outer_lr"),
        ({"space": {LR: {"low": 1.0, "high": 0.1}}}, "goes from 1 to 0.1, which is empty; wanted low < high"),
        ({"space": {LR: {"low": 0.0, "high": 0.1, "log": True}}}, "is log and begins at 0; wanted low > 0"),
        ({"space": {LR: {"low": 0.1}}}, f"tune.space {LR} is no range"),
        ({"space": {LR: []}}, "has no values; wanted at least one"),
        ({"space": {LR: [0.1, 0.1]}}, "has 0.1 twice"),
        ({"space": {LR: 0.1}}, "is 0.1; wanted { low = ..., high = ... } or a list of values"),
        ({"space": {LR: ["fast", "slow"]}}, f"tune.space {LR}, 'fast' in inner_lr=0: .*should be a number"),
        ({"space": {"learning.local_steps": {"low": 1.5, "high": 9.0}}}, "is a whole number; it goes from 1.5 to 9"),
        ({"space": {"learning.inner_lr": [0.1]}}, "is varied by the study and searched in tune.space"),
        ({"space": {}}, "tune.space names no key"),
        ({"space": {"training.seed": [1]}}, "wanted seeds = ... in the study"),
        ({"trails": 3}, "tune.trails is not of a search; it has objective, target"),
        ({"trials": "many"}, "tune.trials is 'many'; it should be"),
        ({"target": 0.5}, "tune.target is 50.0 %; no run names it: the targets are 20.0 %"),
        ({"limit": None}, "tune.limit is not given; wanted so many seconds"),
        ({"objective": "fame", "limit": None}, "tune.objective is 'fame'; wanted seconds, rounds, joules, bits, or"),
        ({"objective": "final_loss"}, "tune.limit is given, and tune.objective is final_loss"),
        ({"fresh_seeds": [1]}, "tune.fresh_seeds has 1, which trials are chosen by"),
    ],
)
def test_a_search_that_cannot_be_is_refused(tune, said, tmp_path):
    based = small()
    merged = {key: value for key, value in {**based.study.tune, **tune}.items() if value is not None}
    based.study.tune.clear()
    based.study.tune.update(merged)
    with pytest.raises(ConfigError, match=said):
        planned_search(based, tmp_path / "out", where="study.toml")


def told(capsys, monkeypatch, *command):
    monkeypatch.setattr(sys, "argv", ["hpfl", "tune", *map(str, command)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr().err


def test_the_command_says_what_it_wants(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "study.toml"
    file.write_text('base = "quickstart"\n')
    said = f"hpfl: {file} has no table [tune]; wanted one with a space: docs/sweep.md shows one\n"
    assert told(capsys, monkeypatch, file) == (2, said)
    assert "missing.toml is not a file" in told(capsys, monkeypatch, "missing.toml")[1]
    file.write_text("[tune]\n")
    assert "names no base" in told(capsys, monkeypatch, file)[1]


def test_without_optuna_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r"hpfl tune needs Optuna: pip install 'hpfl\[tune\]'"):
        planned_search(small(tune={"space": SPACE}), tmp_path / "out", where="study.toml")
