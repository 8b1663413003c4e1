"""A metric of one's own in a whole run: its columns are in every file, and nothing else is changed by it."""

import csv

import numpy as np

import hpfl
from hpfl.reporting.store import read_rounds, read_summary
from hpfl.training.record import MEASURED_FIELDS

SMALL = [
    "network.edges=2",
    "planning.max_edges=2",
    "network.ues_per_edge=3",
    "data.samples_per_ue=[5, 20]",
    "evaluation.test_samples=10",
    "evaluation.every=2",
    "training.rounds=5",
    "training.checkpoint_every=1",
]
OWN = 'evaluation.metrics=["accuracy", "test-loss", "ue_and_rule_parts:confidence"]'
COLUMNS = ("personalised_confidence", "global_confidence", "personalised_confidence_p10")


def shown(rounds):
    return [{name: value for name, value in row.items() if name not in MEASURED_FIELDS} for row in rounds]


def test_its_columns_are_in_every_file_and_nothing_else_is_changed(tmp_path):
    plain = hpfl.run(hpfl.load("quickstart-paper", overrides=SMALL), out=tmp_path / "plain", figures=False)
    config = hpfl.load("quickstart-paper", overrides=[*SMALL, OWN])
    seen = []
    hooks = hpfl.Hooks(on_round=seen.append, should_stop=lambda: len(seen) == 3)
    hpfl.run(config, out=tmp_path / "own", figures=False, hooks=hooks)
    hpfl.run(config, out=tmp_path / "own", figures=False, resume=True, hooks=hpfl.Hooks())

    rounds = read_rounds(tmp_path / "own")
    assert [tuple(row)[-3:] for row in rounds] == [COLUMNS] * 5
    assert [row["personalised_confidence"] is not None for row in rounds] == [False, True, False, True, True]
    without = [{name: value for name, value in row.items() if name not in COLUMNS} for row in rounds]
    assert [list(row.items()) for row in shown(without)] == [list(row.items()) for row in shown(plain.rounds)]

    header, *lines = csv.reader((tmp_path / "own" / "ues.csv").read_text(encoding="utf-8").splitlines())
    usual = next(csv.reader((tmp_path / "plain" / "ues.csv").read_text(encoding="utf-8").splitlines()))
    assert header == [*usual[:-1], *COLUMNS[:2], "energy_j"]
    told = np.array([float(line[header.index(COLUMNS[0])]) for line in lines])
    assert told.mean() == rounds[-1][COLUMNS[0]]
    summary = read_summary(tmp_path / "own")
    assert summary["final_personalised_confidence"] == rounds[-1][COLUMNS[0]]
    assert summary["best_personalised_confidence"] == max(rounds[at][COLUMNS[0]] for at in (1, 3, 4))
