"""The figures' sweeps and tables: runs shared between figures, final values, slopes and pairs by seed."""

import pytest

from hpfl.studies import fig3, fig4, fig5, fig7, fig8, fig9, fig10, fig11
from hpfl.studies.altered import altered
from hpfl.studies.cases import FULL, QUICK, case
from hpfl.studies.catalogue import STUDIES, chosen
from hpfl.studies.tabulate import bands, by_seed, differences, evaluations, finals, per_round, rise, slopes

SEEDS = [0, 1]


def names(study, scale=FULL):
    return {part.name for part in study.STUDY.parts(scale, SEEDS)}


def test_figures_share_runs_that_are_alike():
    assert names(fig7) <= names(fig3) | names(fig4)
    assert {part for part in names(fig8) if part in names(fig3)} >= {
        "mnist/hpfl-paper/seed-0",
        "mnist/hpfl-full/seed-1",
    }
    assert names(fig9) <= names(fig10)


def test_equal_names_are_equal_runs_in_all_studies():
    seen = {}
    for scale in (FULL, QUICK):
        for study in STUDIES.values():
            for part in study.parts(scale, [0]):
                assert seen.setdefault((scale.name, part.name), part.key) == part.key


def test_only_the_setting_that_is_swept_differs():
    runs = {part.labels["rho"]: part.config.model_dump() for part in fig5.STUDY.parts(FULL, [3])}
    assert sorted(runs) == [0.1, 0.3, 0.5, 0.9]
    for tree in runs.values():
        tree["planning"].pop("rho")
    first, *others = runs.values()
    assert all(tree == first for tree in others)
    assert first["training"]["seed"] == 3


def test_hfl_is_hpfl_without_the_inner_step_measured_alike():
    ours, theirs = (case(FULL, "mnist", 0, system=system).config for system in ("hpfl", "hfl"))
    assert theirs.learning.inner_lr == 0.0
    assert ours.learning.inner_lr == ours.evaluation.inner_lr == theirs.evaluation.inner_lr == 0.03


def test_timed_runs_are_marked_so():
    parts = fig11.STUDY.parts(FULL, [0])
    assert [part.name for part in parts if part.timed] == [
        "planning-time/mnist/hpfl-paper/rounds-12/seed-0",
        "planning-time/cifar10/hpfl-paper/rounds-12/seed-0",
    ]
    assert not any(part.timed for part in fig3.STUDY.parts(FULL, [0]))


def test_a_value_that_is_the_presets_changes_no_name():
    assert case(FULL, "mnist", 0, vary={"planning.rho": 0.8}).name == "mnist/hpfl-paper/seed-0"
    assert case(FULL, "mnist", 0, vary={"planning.rho": 0.3}).name == "mnist/hpfl-paper/rho-0.3/seed-0"


def test_other_settings_reach_every_run_and_have_a_folder_of_their_own():
    parts = altered(fig3.STUDY, ["planning.staleness_bound=7", "planning.rho=0.5"]).parts(FULL, SEEDS)
    assert len(parts) == len(fig3.STUDY.parts(FULL, SEEDS))
    assert {part.config.planning.staleness_bound for part in parts} == {7}
    assert {part.labels["rho"] for part in parts} == {0.5}
    assert not {part.name for part in parts} & names(fig3)
    assert altered(fig3.STUDY, []) is fig3.STUDY


def test_studies_are_chosen_by_name_or_group_each_once():
    assert [study.name for study in chosen(["fig9", "fig3", "fig3"])] == ["fig3", "fig9"]
    assert [study.name for study in chosen(["all"])] == list(STUDIES)
    with pytest.raises(KeyError):
        chosen(["fig3", "fig99"])


def made_up(seed=0, *, planner="paper", rho=0.8, accuracy=(None, 0.5, None, 0.7), latency=(4.0, 3.0, 2.0, 1.0)):
    rounds = {name: [0.0] * len(accuracy) for name in ("time_s", "importance", "num_scheduled", "planning_s")}
    loss = [None if value is None else 1 - value for value in accuracy]
    rounds |= {"latency_s": list(latency), "meta_loss": loss, "loss": loss}
    rounds |= {
        name: list(accuracy) for name in ("personalised_accuracy", "global_accuracy", "personalised_accuracy_p10")
    }
    labels = {"data": "mnist", "system": "hpfl", "planner": planner, "rho": rho, "labels_per_ue": 2, "seed": seed}
    return {"labels": labels, "rounds": rounds, "diverged": None}


def test_only_evaluated_rounds_are_evaluations():
    rows = evaluations([made_up()])
    assert [(row["round"], row["personalised_accuracy"]) for row in rows] == [(2, 0.5), (4, 0.7)]
    assert len(per_round([made_up()], ["latency_s"])) == 4


def test_final_values_are_means_over_the_last_tenth():
    values = [float(number) for number in range(20)]
    row = finals([made_up(accuracy=values, latency=values)], ("latency_s", "personalised_accuracy"))[0]
    assert row["latency_s"] == row["personalised_accuracy"] == 18.5


def test_a_final_value_is_the_last_evaluated_one_where_the_end_was_not():
    assert finals([made_up(accuracy=(None, 0.5, None, None))])[0]["personalised_accuracy"] == 0.5


def test_bands_are_means_over_seeds():
    rows = bands(finals([made_up(0), made_up(1, accuracy=(0.1, 0.9))]), ("planner",), ("personalised_accuracy",))
    assert rows[0]["personalised_accuracy"] == pytest.approx(0.8)
    assert rows[0]["seeds"] == 2
    assert rows[0]["personalised_accuracy_low"] < 0.8 < rows[0]["personalised_accuracy_high"]


def test_differences_are_paired_by_seed():
    ours = [{"seed": 0, "x": 5.0}, {"seed": 1, "x": 7.0}, {"seed": 2, "x": 9.0}]
    theirs = [{"seed": 1, "x": 1.0}, {"seed": 0, "x": 2.0}]
    assert differences(ours, theirs, "x") == (3.0, 6.0)


def test_slopes_are_rises_over_the_range_seed_by_seed():
    rows = [{"seed": seed, "rho": rho, "y": 3 * rho + seed} for seed in (0, 1) for rho in (0.4, 0.6, 0.8)]
    assert slopes(rows, "rho", "y") == pytest.approx((1.2, 1.2))
    assert rise([1.0, 1.0], [2.0, 3.0]) is None


def test_a_figure_that_cannot_be_had_of_a_seed_is_left_out():
    assert by_seed([{"seed": 0}, {"seed": 1}], lambda rows: None if rows[0]["seed"] else 2.0) == (2.0,)


def test_falling_latency_speaks_for_the_claim_and_rising_against_it():
    falling = fig7.tables([made_up(seed) for seed in range(5)])
    rising = fig7.tables([made_up(seed, latency=(1.0, 2.0, 3.0, 4.0)) for seed in range(5)])
    verdicts = [
        next(part.verdict for part in fig7.statements(made) if "latency" in part.text) for made in (falling, rising)
    ]
    assert verdicts == ["holds", "does not hold"]


def test_latency_that_rises_with_rho_speaks_for_the_claim():
    found = [
        made_up(seed, planner=planner, rho=rho, latency=[1.0 + (10 * rho if planner == "paper" else 0)] * 4)
        for seed in range(5)
        for planner in ("full", "paper")
        for rho in (0.4, 0.6, 0.8)
    ]
    for part in found:
        part["rounds"]["importance"] = [1.0] * 4
    parts = {part.text: part.verdict for part in fig8.statements(fig8.tables(found))}
    assert parts["full: latency, rise over the range of rho relative to its mean"] == "holds"
    assert parts["proposed: latency, rise over the range of rho relative to its mean"] == "holds"
    assert parts["proposed: importance, rise over the range of rho relative to its mean"] != "holds"
