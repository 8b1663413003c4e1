"""Study `methods`: which runs it has and when, and what its tables, notes and figures say of figures that are known."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hpfl.studies import methods
from hpfl.studies.cases import FULL, QUICK
from hpfl.studies.methods_grid import DEVELOPMENT, METHOD_NAMES, grid
from hpfl.sweeps.part_run import run_part
from hpfl.sweeps.runner import results


def found(method: str, planner: str = "full", seed: int = 0, *, top: float, **labels: Any) -> dict[str, Any]:
    """A judged part of ten UEs, of which the last never trains, at the top from round five of ten."""
    place = {"group": "judged", "data": "mnist", "partition": "IID", "planner": planner, "step": 0.2}
    curve = [top * min(number / 5, 1.0) for number in range(1, 11)]
    accuracies = [top - 0.1, *[top] * 8, top - 0.2]
    rounds = {
        "personalised_accuracy": curve,
        "time_s": [2.0 * number for number in range(1, 11)],
        "energy_j": [0.5] * 10,
        "uplink_bits": [100.0] * 10,
    }
    return {
        "labels": {**place, "method": method, "seed": seed, **labels},
        "ues": {"personalised_accuracy": accuracies},
        "newcomers": [9],
        "rounds": rounds,
        "diverged": None,
    }


def developed(scale: Any, best: float) -> list[dict[str, Any]]:
    """All development parts, the best step being the greatest up to `best`."""
    parts = methods.parts(scale, [0])
    score = {part.name: -abs(part.labels["step"] - best) for part in parts}
    return [{**found(part.labels["method"], top=0.5 + score[part.name]), "labels": dict(part.labels)} for part in parts]


def test_every_method_is_tried_at_every_step_on_a_seed_that_judges_nothing() -> None:
    parts = methods.parts(FULL, [0, 1])
    assert {part.config.training.seed for part in parts} == {DEVELOPMENT}
    tried = Counter((part.labels["data"], part.labels["method"]) for part in parts)
    assert set(tried.values()) == {5}
    assert len(tried) == len(grid(FULL)) * len(METHOD_NAMES)
    assert not methods.then(FULL, [0, 1], [])


def test_the_full_grid_is_judged_at_the_steps_that_were_best() -> None:
    known = developed(FULL, 0.05)
    parts = methods.then(FULL, range(5), known)
    count = Counter(part.labels["data"] for part in parts)
    assert count == {"mnist": 13 * 3 * 2 * 5, "fashion-mnist": 13 * 3 * 2 * 5, "cifar10": 13 * 3 * 1 * 3}
    assert len({part.name for part in parts}) == len(parts)
    usual = [part for part in parts if part.labels["method"] != "pfedme"]
    assert {part.config.learning.outer_lr for part in usual} == {0.05}
    own = {part.labels["step"] for part in parts if part.labels["method"] == "pfedme"}
    assert own == {0.05}
    missing = [one for one in known if (one["labels"]["data"], one["labels"]["method"]) != ("mnist", "ditto")]
    half = methods.then(FULL, range(5), missing + [one for one in known if one not in missing][:1])
    assert not any(p.labels["data"] == "mnist" and p.labels["method"] == "ditto" for p in half)


def test_tables_and_notes_say_who_wins_and_how_soon(tmp_path: Path) -> None:
    tops = {"fedavg": 0.8, "ditto": 0.9, "local": 0.7}
    every = [found(name, planner, seed, top=top + seed / 100 + (planner == "fastest") / 50)
             for name, top in tops.items() for planner in ("full", "fastest") for seed in (0, 1)]  # fmt: skip
    made = methods.STUDY.tables([*every, *developed(QUICK, 0.2)])
    full = [row for row in made["accuracies"] if row["planner"] == "full"]
    assert [(row["rank"], row["method"]) for row in full] == [(1, "ditto"), (2, "fedavg"), (3, "local")]
    ditto = full[0]
    assert ditto["accuracy"] == pytest.approx(0.905 - 0.1 / 9)
    assert ditto["worst_tenth"] == pytest.approx(0.805)
    assert ditto["newcomers"] == pytest.approx(0.705)
    assert ditto["best_round"] == 5
    assert (ditto["worse_off"], full[2]["worse_off"]) == (0.0, None)
    ways = {row["method"]: row for row in made["targets"] if row["planner"] == "full"}
    assert {name: row["reached"] for name, row in ways.items()} == {"ditto": 2, "fedavg": 2, "local": 0}
    assert ways["ditto"]["target"] == pytest.approx(0.805 - 0.1 / 9 - 0.01, abs=1e-3)
    assert [ways["ditto"][name] for name in ("seconds", "joules", "bits")] == [10.0, 2.5, 500.0]
    assert {row["step"] for row in made["choices"] if row["method"] == "ditto"} == {0.2}
    notes = methods.STUDY.notes(made)
    assert notes[0] == "With `fastest` the best mean ranks by final accuracy are those of " \
        "`ditto` (1.0), `fedavg` (2.0), `local` (3.0)."  # fmt: skip
    (told,) = [note for note in notes if note.startswith("mnist, IID, `full`: ")]
    assert "`ditto` ends best with 89.4 %; the worst tenth is best with `ditto` (80.5 %)" in told
    assert told.endswith("`fedavg` is first at 78.4 % (10 s), `fedavg` with the fewest joules (2.5 J).")
    assert len(methods.STUDY.draw(made, tmp_path)) == 6


def test_a_method_that_diverges_has_no_accuracy_and_is_worst() -> None:
    lost = found("fedprox", top=0.9) | {"ues": None, "diverged": "the model is infinite"}
    made = methods.STUDY.tables([found("fedavg", top=0.3), lost])
    assert [row["method"] for row in made["accuracies"]] == ["fedavg", "fedprox"]
    assert made["accuracies"][1]["accuracy"] == 0.0


def test_a_quick_part_runs_and_is_read_back(tmp_path: Path) -> None:
    (part,) = [one for one in methods.parts(QUICK, [0]) if one.labels["method"] == "fedper"][:1]
    run_part(part, tmp_path, device="cpu", data_dir=None)
    (one,) = results([part], tmp_path)
    (choice,) = methods.STUDY.tables([one])["choices"]
    assert 0.1 < choice["accuracy"] <= 1
    assert len(one["newcomers"]) == 5
