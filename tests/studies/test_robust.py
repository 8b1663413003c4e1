"""Study `robust`: which runs it has, and what its tables and notes say of figures that are known."""

import numpy as np

from hpfl.studies import robust
from hpfl.studies.cases import QUICK
from hpfl.sweeps.runner import results, run_parts


def found(labels, who, attack, rule, accuracy, seed=0, success=None):
    hostile = robust.hostile_members(who, seed)
    values = np.where(hostile, 0.123, accuracy).tolist()
    about = {"labels_per_ue": labels, "who": who, "attack": attack, "rule": rule, "seed": seed}
    return {"labels": about, "ues": {"personalised_accuracy": values}, "rounds": {"backdoor_success": [None, success]}}


def test_an_attacked_run_differs_from_the_clean_one_by_who_is_hostile_alone():
    clean, attacked = (robust._part(QUICK, 0, 5, "ues", attack, "krum") for attack in ("none", "ipm"))
    assert not clean.config.hostile.on
    assert differing(clean.config, attacked.config) == {"attack": "ipm", "ues": 0.2}
    assert clean.config.training.edge_combine_options == {"hostile": 2}
    assert robust._part(QUICK, 0, 5, "edges", "ipm", "krum").config.training.combine_options == {"hostile": 1}
    assert clean.name != attacked.name


def differing(one, other):
    assert {**one.tree(), "hostile": None} == {**other.tree(), "hostile": None}
    before, after = one.tree()["hostile"], other.tree()["hostile"]
    return {key: value for key, value in after.items() if before[key] != value}


def test_tables_tell_of_honest_ues_and_of_the_rule_that_keeps_most():
    every = [found(5, "ues", attack, rule, 0.9) for attack in ("none", *robust.ATTACKS) for rule in robust.RULES]
    worse = {("sign-flip", "mean"): 0.1, ("sign-flip", "krum"): 0.89, ("ipm", "krum"): 0.3}
    for one in every:
        about = one["labels"]["attack"], one["labels"]["rule"]
        honest = worse.get(about, 0.85 if about[0] == "sign-flip" else 0.9)
        one["ues"] = found(5, "ues", *about, honest)["ues"]
    made = robust.tables(every)
    best = {row["attack"]: row for row in made["best"]}
    assert best["sign-flip"]["best_rule"] == "krum"
    assert round(best["sign-flip"]["points_lost"], 9) == 1.0
    assert round(best["sign-flip"]["attacked_mean"], 9) == 0.1
    krum = next(row for row in made["losses"] if row["rule"] == "krum")
    assert (round(krum["none"], 9), round(krum["ipm"], 9)) == (0.9, 0.3)
    (note,) = robust.notes(made)
    assert "`median` keeps 85.0 % under its worst attack, the mean 10.0 %" in note
    assert "Attack by attack, each has a rule" in note


def test_a_part_runs_is_found_again_and_is_drawn(tmp_path):
    wanted = ("none", "mean"), ("backdoor", "mean"), ("backdoor", "median")
    parts = [robust._part(QUICK, 0, 5, "edges", attack, rule) for attack, rule in wanted]
    for part in parts:
        part.config.training.rounds = 2
    assert run_parts(parts, tmp_path, device="cpu")
    made = robust.tables(results(parts, tmp_path))
    success = {row["rule"]: row["backdoor_success"] for row in made["means"] if row["attack"] == "backdoor"}
    assert all(0 <= value <= 1 for value in success.values())
    assert len(robust.STUDY.draw(made, tmp_path)) == 2
