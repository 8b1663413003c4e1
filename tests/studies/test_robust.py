"""Study `robust`: which runs it has, and what its tables and notes say of figures that are known."""

import numpy as np

from hpfl.config import fingerprint
from hpfl.studies import robust
from hpfl.studies.cases import QUICK
from hpfl.studies.runner import results, run_parts


def found(labels, who, attack, rule, accuracy, seed=0, success=None):
    hostile = robust.hostile_members(who, seed)
    values = np.where(hostile, 0.123, accuracy).tolist()
    about = {"labels_per_ue": labels, "who": who, "attack": attack, "rule": rule, "seed": seed}
    return {"labels": about, "ues": {"personalised_accuracy": values}, "rounds": {"backdoor_success": [None, success]}}


def test_every_rule_meets_every_attack_in_every_case_and_no_two_runs_are_one():
    parts = robust.parts(QUICK, [0, 1])
    assert len({part.name for part in parts}) == len(parts) == 2 * 2 * 2 * 7 * 8
    clean = [part for part in parts if part.labels["attack"] == "none"]
    assert not any(part.config.hostile.on for part in clean)
    attacked = {fingerprint(part.config) for part in parts if part.labels["attack"] != "none"}
    assert len(attacked) == len(parts) - len(clean)


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
    parts = [
        part
        for part in robust.parts(QUICK, [0])
        if (part.labels["attack"], part.labels["rule"]) in wanted
        and (part.labels["who"], part.labels["labels_per_ue"]) == ("edges", 5)
    ]
    short = [part.config.training.__setattr__("rounds", 2) for part in parts]
    assert short == [None] * 3
    assert run_parts(parts, tmp_path, device="cpu")
    made = robust.tables(results(parts, tmp_path))
    success = {row["rule"]: row["backdoor_success"] for row in made["means"] if row["attack"] == "backdoor"}
    assert all(0 <= value <= 1 for value in success.values())
    assert len(robust.STUDY.draw(made, tmp_path)) == 2
