"""The studies beyond the paper: tables say what the runs hold, runs are shared with figures, quick ones are few."""

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import hpfl
from hpfl.studies import clocks, fairness, fig3, fig4, gradient_orders, planner_gap, sensitivity
from hpfl.studies.beyond import TIMES_THE_ROUNDS, less
from hpfl.studies.cases import FULL, QUICK
from hpfl.studies.catalogue import GROUPS, STUDIES
from hpfl.studies.tabulate import where
from hpfl.sweeps.parts import StudyPart, done
from hpfl.sweeps.runner import run_parts

OURS = (planner_gap, clocks, gradient_orders, fairness, sensitivity)


def found(accuracies, *, every=1, seconds=1.0, ues=None, plans=None, **labels):
    """A part's file with these accuracies, one every so many rounds of so many seconds."""
    measured = [value for accuracy in accuracies for value in [None] * (every - 1) + [accuracy]]
    count = len(measured)
    columns = {name: list(measured) for name in ("personalised_accuracy", "global_accuracy")}
    columns |= {"personalised_accuracy_p10": list(measured), "max_staleness": [2] * count}
    columns |= {name: [None if value is None else 1.0 - value for value in measured] for name in ("meta_loss", "loss")}
    columns |= {"time_s": [seconds * number for number in range(1, count + 1)]}
    place = {"data": "mnist", "system": "hpfl", "planner": "paper", "rho": 0.8, "labels_per_ue": 2, "seed": 0}
    place |= {"clock": "round", "objective": "exact"}
    return {"labels": place | labels, "rounds": columns, "diverged": None, "ues": ues, "plans": plans}


# planner-gap


def planned(bound, *, rho, seed=0, **objectives):
    objective = {who: objectives.get(who, bound) for who in planner_gap.PLANNED}
    latency = {who: [6.0] * len(bound) for who in planner_gap.PLANNED}
    plans = {"lower_bound": bound, "scale": [10.0] * len(bound), "objective": objective, "latency_s": latency}
    return found([0.5] * len(bound), planner="joint", rho=rho, seed=seed, plans=plans)


def gaps(*parts):
    return {row["planner"]: row for row in planner_gap.tables(parts)["gaps"]}


def test_a_gap_in_seconds_is_the_gap_over_the_weight_of_a_second():
    row = gaps(planned([-4.0, -4.0], rho=0.75, paper=[-3.0, -2.0]))["paper"]
    assert row["lost_s"] == pytest.approx(6.0)
    assert row["lost_s_worst"] == pytest.approx(8.0)
    assert row["gap_of_bound_worst"] == pytest.approx(0.5)
    assert row["gap_of_terms_worst"] == pytest.approx(0.2)


def test_gaps_in_seconds_stay_plain_where_the_objective_is_near_zero():
    row = gaps(planned([-1e-9, 2.0], rho=0.5, paper=[1.0, 3.0]))["paper"]
    assert row["lost_s_worst"] == pytest.approx(2.0)
    assert row["gap_of_bound_worst"] > 1e8


def test_rounds_are_optimal_where_the_gap_is_rounding():
    found_gaps = gaps(planned([1.0, 1.0, 1.0, 1.0], rho=0.5, paper=[1.0, 1.0 + 1e-9, 1.1, 1.0 + 1e-3]))
    assert found_gaps["paper"]["optimal_share"] == 0.5
    assert found_gaps["joint"]["optimal_share"] == 1.0


def test_runs_of_other_rho_are_told_apart():
    rows = planner_gap.tables([planned([1.0], rho=0.5, paper=[2.0]), planned([1.0], rho=0.9, paper=[2.0])])["gaps"]
    assert {row["rho"]: row["lost_s"] for row in rows if row["planner"] == "paper"} == pytest.approx({0.5: 2, 0.9: 10})


def tiny(name, **more):
    overrides = ["network.edges=5", "network.ues_per_edge=2", "data.samples_per_ue=[5, 9]", "planning.max_edges=3"]
    overrides += ["evaluation.test_samples=5", "training.rounds=6", "evaluation.every=2", "planning.planner=paper"]
    labels = {"data": "mnist-mini", "planner": "paper", "rho": 0.8, "seed": 0}
    return StudyPart(name=name, labels=labels, config=hpfl.load("quickstart-paper", overrides=overrides), **more)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same run, plain and replanned."""
    out = tmp_path_factory.mktemp("gap")
    pair = [tiny("plain"), tiny("probed", probe=planner_gap.replanned)]
    assert run_parts(pair, out, device="cpu", console=Console(quiet=True))
    return [done(part, out) for part in pair]


def test_no_plan_of_a_real_round_is_below_the_bound_and_joint_is_at_it(both):
    rows = planner_gap.tables(both[1:])["rounds"]
    assert len(rows) == 6
    for row in rows:
        assert row["joint"] - row["lower_bound"] < planner_gap.OPTIMAL * row["scale"]
        assert min(row[who] - row["lower_bound"] for who in planner_gap.PLANNED) >= -1e-9 * row["scale"]
    assert sum(row["random"] - row["lower_bound"] for row in rows) > 0.01


def test_planning_again_does_not_disturb_the_run(both):
    plain, probed = both
    for column in ("time_s", "meta_loss", "num_scheduled", "importance"):
        assert plain["rounds"][column] == probed["rounds"][column]


def test_the_steering_planner_planned_again_takes_as_long_as_in_the_run(both):
    probed = both[1]
    assert probed["plans"]["latency_s"]["paper"] == pytest.approx(probed["rounds"]["latency_s"])


def test_a_probe_is_part_of_the_key_and_plain_parts_keep_theirs():
    plain = tiny("plain")
    assert replace(plain, probe=planner_gap.replanned).key != plain.key
    assert plain.key.endswith("[6, null, null]")


# clocks


def test_runs_shared_with_a_figure_carry_the_labels_they_are_asked_by():
    assert {part.labels["clock"] for part in clocks.STUDY.parts(QUICK, [0])} == {"round", "event"}
    assert "exact" in {part.labels["objective"] for part in gradient_orders.STUDY.parts(QUICK, [0])}


def test_clocks_are_compared_by_seed_and_with_the_same_computing():
    runs = [
        found([0.95] * 4, seconds=seconds * (1 + seed), seed=seed, **more)
        for seed in (0, 1)
        for seconds, more in ((3.0, {}), (2.0, {"clock": "event"}), (9.0, {"cycles_per_bit": clocks.SLOW}))
    ]
    ratios = clocks.tables(runs)["ratios"]
    assert {row["quantity"]: row["round_over_event"] for row in ratios} == pytest.approx(
        {"seconds_per_round": 1.5, "time_to_target_s": 1.5}
    )
    assert {row["computing"] for row in ratios} == {"preset"}


def test_a_run_that_diverges_in_its_first_round_has_no_seconds_per_round():
    parts = [found([], clock="event"), found([0.9] * 3, seconds=2.0), found([0.9] * 3, clock="event", seed=1)]
    made = clocks.tables(parts)
    [row] = where(made["runs"], seed=0, clock="event")
    assert (row["rounds"], row["run_s"], row["seconds_per_round"], row["max_staleness"]) == (0, 0.0, None, None)
    [mean] = where(made["means"], clock="event")
    assert (mean["seconds_per_round"], mean["seeds"]) == (1.0, 2)
    assert made["ratios"] == []


def test_a_target_that_is_not_held_is_not_reached():
    made = clocks.tables([found([0.5, 0.95, 0.5, 0.95, 0.95]), found([0.5, 0.9, 0.9, 0.9], seed=1)])
    row = made["means"][0]
    assert (row["reached"], row["seeds"], row["time_to_target_s"]) == (1, 2, 2.0)


def test_curves_stay_within_the_seconds_that_all_seeds_have():
    rows = clocks.tables([found([0.1, 0.3, 0.5]), found([0.1, 0.3, 0.5], seconds=2.0, seed=1)])["curves"]
    assert (rows[0]["time_s"], rows[-1]["time_s"]) == pytest.approx((2.0, 3.0))
    assert rows[0]["personalised_accuracy"] == pytest.approx((0.3 + 0.1) / 2)
    assert all(row["seeds"] == 2 for row in rows)


# orders


def test_orders_are_compared_with_exact_gradients_of_the_same_seed():
    runs = [found([0.5, 0.8 + 0.1 * seed], seed=seed) for seed in (0, 1)]
    runs += [found([0.4, 0.7 + 0.1 * seed], seed=seed, objective="first-order") for seed in (0, 1)]
    made = gradient_orders.tables(runs)
    (row,) = made["differences"]
    assert row["objective"] == "first-order"
    assert (row["personalised_accuracy"], row["personalised_accuracy_low"]) == pytest.approx((-0.1, -0.1))
    assert row["meta_loss"] == pytest.approx(0.1)
    assert [row["round"] for row in made["apart"]] == [1, 2]


# fairness


def test_the_worst_decile_is_the_mean_of_the_worst_tenth():
    spread = fairness.spread_of(np.array([0.1, 0.3] + [0.9] * 18))
    assert spread["worst_decile"] == pytest.approx(0.2)
    assert spread["best_decile"] == pytest.approx(0.9)
    assert spread["jain"] < 1.0


def test_ues_that_fare_alike_have_an_index_of_one_and_no_deviation():
    spread = fairness.spread_of(np.full(30, 0.7))
    assert (spread["jain"], spread["deviation"]) == pytest.approx((1.0, 0.0))


def test_fairness_compares_with_hfl_by_seed_and_leaves_out_runs_that_diverged():
    def of(system, seed, low):
        return found([0.5], system=system, seed=seed, ues={"personalised_accuracy": [low, None] + [0.9] * 9})

    made = fairness.tables([of("hfl", 0, 0.2), of("hfl", 1, 0.4), of("hpfl", 0, 0.5), of("hpfl", 1, 0.7), found([0.5])])
    (row,) = made["differences"]
    assert row["worst_decile"] == pytest.approx(0.3)
    assert len(made["runs"]) == 4
    assert made["runs"][0]["ues"] == 10


# sensitivity


def setting(seed, accuracy, system="hpfl", planner="paper", **labels):
    return found([accuracy], seed=seed, system=system, planner=planner, **labels)


def test_sensitivity_pairs_runs_of_one_setting():
    runs = [setting(seed, 0.9 + 0.01 * seed) for seed in range(5)]
    runs += [setting(seed, 0.8 + 0.01 * seed, "hfl") for seed in range(5)]
    runs += [setting(seed, 0.7, staleness_bound=5) for seed in range(5)]
    runs += [setting(seed, 0.72 + 0.001 * seed, "hfl", staleness_bound=5) for seed in range(5)]
    rows = sensitivity.tables(runs)["differences"]
    signs = {row["setting"]: (row["accuracy_is"], row["personalised_accuracy"]) for row in rows}
    assert signs[sensitivity.PRESET] == ("higher", pytest.approx(0.1))
    assert signs["S = 5"] == ("lower", pytest.approx(-0.022))


def test_nothing_is_said_of_few_seeds_or_of_an_interval_that_holds_zero():
    row = less(
        [{"seed": seed, "a": value} for seed, value in enumerate((1.0, -1.0, 1.0, -1.0, 0.5))],
        [{"seed": seed, "a": 0.0} for seed in range(5)],
        ("a",),
    )
    assert sensitivity.sign_of(row, "a") == "open"
    certain = {"a": 1.0, "a_low": 0.9, "a_high": 1.1}
    assert sensitivity.sign_of(certain | {"seeds": 2}, "a") == "open"
    assert sensitivity.sign_of(certain | {"seeds": 5}, "a") == "higher"


def test_the_step_that_measures_follows_alpha_and_hfl_never_adapts_in_training():
    parts = [part for part in sensitivity.parts(FULL, [0]) if "alpha" in part.name]
    assert {part.config.evaluation.inner_lr for part in parts} == set(sensitivity.STEPS)
    for part in parts:
        wanted = 0.0 if part.labels["system"] == "hfl" else part.config.evaluation.inner_lr
        assert part.config.learning.inner_lr == wanted


def test_the_data_sizes_of_the_study_can_be_dealt():
    for scale, available in ((FULL, 60_000), (QUICK, 12_000)):
        for part in sensitivity.parts(scale, [0]):
            low, high = part.config.data.samples_per_ue
            assert (low + high) / 2 * part.config.network.num_ues < 0.92 * available


# shared runs and how many


def names(study, scale, seeds=(0,)):
    return {part.name for part in study.STUDY.parts(scale, seeds)}


@pytest.mark.parametrize("scale", [FULL, QUICK])
def test_studies_share_the_figures_runs(scale):
    figures = names(fig3, scale) | names(fig4, scale)
    assert all("fastest" in name for name in names(fairness, scale) - figures)
    assert all("objective" in name for name in names(gradient_orders, scale) - figures)
    shared = {part.name: part.key for study in (fig3, fig4) for part in study.STUDY.parts(scale, (0,))}
    for study in OURS:
        assert all(part.key == shared[part.name] for part in study.STUDY.parts(scale, (0,)) if part.name in shared)


def beyond_figures(scale):
    figures = {part.name for name in GROUPS["figures"] for part in STUDIES[name].parts(scale, [0])}
    return {part.name for study in OURS for part in study.STUDY.parts(scale, [0])} - figures


def test_a_seed_adds_few_runs():
    assert len(beyond_figures(QUICK)) <= 22
    extra = beyond_figures(FULL)
    assert sum("cifar10" in name for name in extra) <= 4
    assert len(extra) <= 46


def test_fastest_is_given_more_rounds():
    part = next(part for part in fairness.parts(QUICK, [0]) if part.labels["planner"] == "fastest")
    assert part.config.training.rounds == TIMES_THE_ROUNDS * QUICK.setups["mnist"].rounds
    assert not part.timed


@pytest.mark.parametrize("study", OURS)
def test_every_study_draws_what_its_tables_hold(study, tmp_path):
    parts = study.STUDY.parts(QUICK, [0, 1])
    ues = {"personalised_accuracy": [0.5, 0.7, 0.9]}
    plans = {
        key: planned([1.0] * 3, rho=0.5)["plans"][key] for key in ("lower_bound", "scale", "objective", "latency_s")
    }
    runs = [found([0.4, 0.6, 0.8], ues=ues, plans=plans, **part.labels) for part in parts]
    made = study.STUDY.tables(runs)
    figures = study.STUDY.draw(made, tmp_path)
    assert {path.suffix for path in figures} == {".svg", ".png"}
    assert set(study.STUDY.shown) <= set(made)
    assert all(made.values())
    json.dumps(made, allow_nan=False)
    assert not study.STUDY.claims(made)  # they must not sway the verdicts of the paper's claims


def test_gaps_are_recomputed_from_the_table_of_rounds():
    made = planner_gap.tables([planned([1.0, 2.0], rho=0.5, paper=[2.0, 2.5])])
    rows = where(made["rounds"], rho=0.5)
    assert planner_gap.seconds_lost(rows, "paper").tolist() == pytest.approx([2.0, 1.0])
