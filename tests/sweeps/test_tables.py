"""Tables: means and intervals as computed by hand, ratios by seed to the baseline, and texts that can be set."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_studies import small

from hpfl.reporting.runs import RunView
from hpfl.reporting.targets import Target
from hpfl.sweeps.cells import cells_of
from hpfl.sweeps.outputs import note
from hpfl.sweeps.set_against import baselines
from hpfl.sweeps.sweep_tables import TableCell, tables
from hpfl.sweeps.swept import Swept, SweptRun, result_rows, tag, target_columns
from hpfl.sweeps.table_texts import latex, markdown, plain_cell, tex

T_95 = {2: 12.706204736432095, 3: 4.302652729911275}
"""Student's t for 95 %, by the number of seeds."""


def rows(times, level=0.9):
    """Rounds of a run that is evaluated at these seconds, and reaches its level at once."""
    known = {"meta_loss": 1.0, "loss": 1.0, "global_accuracy": 0.5, "personalised_accuracy_p10": 0.4}
    costs = {"energy_j": 2.0, "uplink_bits": 1e6, "downlink_bits": 5e5, "planning_s": 0.1, "latency_s": 1.0}
    shape = {"num_scheduled": 2, "max_staleness": 0, "mean_staleness": 0.0, "scheduled": [0, 1]}
    return [
        {"round": number, "time_s": time_s, "personalised_accuracy": level, **known, **costs, **shape}
        for number, time_s in enumerate(times, 1)
    ]


def swept(runs, **tree):
    """A sweep with these rounds: by planner, a list of runs of seeds 0, 1, ..."""
    based = small(grid={"planning.planner": list(runs)}, seeds=len(next(iter(runs.values()))), **tree)
    cells = cells_of(based.study, based.base)
    made = [
        SweptRun(cell=cell, seed=seed, view=RunView(label="", rows=own), lost=None, wall_s=1.0, environment={})
        for cell in cells
        for seed, own in enumerate(runs[cell.values["planning.planner"]])
    ]
    return Swept(study=based.study, cells=cells, targets=[Target(0.8)], runs=made)


shown = plain_cell


def test_a_mean_has_students_interval():
    seconds = [2.0, 3.0, 7.0]
    sweep = swept({"paper": [rows([s, s + 1, s + 2]) for s in seconds]})
    table = tables(sweep)[1]
    cell = table.rows[0][table.headings.index("time (s)")]
    deviation = math.sqrt(((2 - 4) ** 2 + (3 - 4) ** 2 + (7 - 4) ** 2) / 2)
    assert cell.mean == pytest.approx(4.0)
    assert cell.half == pytest.approx(T_95[3] * deviation / math.sqrt(3))
    assert shown(cell) == "4.0 ± 6.6"


def test_ratios_are_taken_seed_by_seed_to_the_cell_with_the_baselines_values():
    sweep = swept(
        {"paper": [rows([2, 3, 4]), rows([10, 11, 12])], "random": [rows([4, 5, 6]), rows([80, 81, 82])]},
        baseline={"planning.planner": "paper"},
    )
    table = tables(sweep)[1]
    base, other = (row[table.headings.index("time / baseline")] for row in table.rows)
    logs = [math.log(2), math.log(8)]
    half = T_95[2] * abs(logs[1] - logs[0]) / 2
    assert base.words == "baseline"
    assert other.mean == pytest.approx(4.0)
    assert other.ends == pytest.approx((4.0 * math.exp(-half), 4.0 * math.exp(half)))


def test_where_runs_do_not_arrive_it_is_said_how_many_do_and_there_is_no_ratio():
    sweep = swept(
        {"paper": [rows([2, 3, 4]), rows([2, 3, 4])], "random": [rows([4, 5, 6]), rows([4, 5, 6], level=0.7)]},
        baseline={"planning.planner": "paper"},
    )
    table = tables(sweep)[1]
    row = dict(zip(table.headings, map(shown, table.rows[1]), strict=True))
    assert row["time (s)"] == "1 of 2 arrive"
    assert row["time / baseline"] == "–"
    assert "1 of 2 arrive" in markdown([table], "")


def test_a_row_has_every_axis_the_seed_and_the_way_to_every_target():
    sweep = swept({"paper": [rows([2, 3, 4])]})
    [row] = result_rows(sweep)
    assert (row["planning.planner"], row["seed"], row["lost"]) == ("paper", 0, False)
    columns = target_columns(Target(0.8))
    assert [row[columns[name]] for name in ("time_to_target_s", "rounds_to_target", "energy_to_target_j")] == [
        2,
        1,
        2.0,
    ]
    assert row["uplink_to_0.8_bits"] == 1e6
    assert not {"planning_s", "wall_s"} & set(row)
    assert tag(Target(0.12, "personalised_test_loss")) == "loss_0.12"


def test_every_run_is_held_against_the_local_one_that_differs_by_the_method_alone():
    grid = {"planning.planner": ["paper", "random"], "learning.method": ["local", "fedper"]}
    based = small(grid=grid, seeds=1)
    cells = cells_of(based.study, based.base)
    accuracies = {("paper", "local"): [0.5, 0.5], ("random", "local"): [0.9, 0.9]}

    def view(cell):
        planner, method = cell.values["planning.planner"], cell.values["learning.method"]
        ues = {"personalised_accuracy": accuracies.get((planner, method), [0.4, 0.6]), "samples": [5, 5]}
        return RunView(label="", rows=rows([1, 2, 3]), config={"learning": {"method": method}}, ues=ues)

    made = [SweptRun(cell=cell, seed=0, view=view(cell), lost=None, wall_s=1.0, environment={}) for cell in cells]
    sweep = Swept(study=based.study, cells=cells, targets=[], runs=made)
    told = {(row["planning.planner"], row["learning.method"]): row for row in result_rows(sweep)}
    assert {place: row["worse_off_than_local"] for place, row in told.items()} == {
        ("paper", "local"): None, ("paper", "fedper"): 0.5, ("random", "local"): None, ("random", "fedper"): 1.0,
    }  # fmt: skip
    assert told["paper", "fedper"]["final_personalised_accuracy_worst_tenth"] == 0.4
    assert told["paper", "fedper"]["best_round"] == 1
    first = tables(sweep)[0]
    own = first.rows[list(told).index(("paper", "fedper"))][first.headings.index("worse off than local (%)")]
    assert own.mean == 50


def test_every_cell_is_set_against_the_one_that_is_like_it():
    grid = {"planning.planner": ["paper", "random"], "network.bandwidth_hz": [1e6, 2e6]}
    based = small(grid=grid, baseline={"planning.planner": "paper"})
    found = baselines(based.study, cells_of(based.study, based.base))
    assert found == {
        "bandwidth_hz=1e6,planner=random": "bandwidth_hz=1e6,planner=paper",
        "bandwidth_hz=2e6,planner=random": "bandwidth_hz=2e6,planner=paper",
    }
    named = small(
        grid={"network.bandwidth_hz": [1e6]}, baseline={"case": "ours"},
        cases=[{"name": "ours", "planning.planner": "paper"}, {"name": "theirs", "planning.planner": "random"}],
    )  # fmt: skip
    found = baselines(named.study, cells_of(named.study, named.base))
    assert found == {"theirs,bandwidth_hz=1e6": "ours,bandwidth_hz=1e6"}


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (TableCell(mean=12.345, half=0.0421), "12.345 ± 0.042"),
        (TableCell(mean=1234.5, half=87.0), "1234 ± 87"),
        (TableCell(mean=3.0, half=0.0), "3.000"),
        (TableCell(mean=0.5, ends=(0.25, 1.0), is_ratio=True), "0.50× (0.25 .. 1.00)"),
        (TableCell(mean=0.5, is_ratio=True), "0.5000×"),
        (TableCell(), "–"),
    ],
)
def test_a_figure_has_as_many_decimals_as_its_margin_is_worth(cell, text):
    assert shown(cell) == text


def test_latex_is_whole_rules_are_booktabs_and_nothing_special_is_left():
    sweep = swept(
        {"paper": [rows([2, 3, 4])] * 2, "random": [rows([4, 5, 6])] * 2}, baseline={"planning.planner": "paper"}
    )
    text = latex(tables(sweep), note(sweep))
    assert text.isascii()
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 2
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(rf"\{rule}") == 2
    for columns, body in re.findall(r"\\begin{tabular}{([lr]+)}(.*?)\\end{tabular}", text, flags=re.S):
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(lines) == 3
        assert all(len(re.findall(r"(?<!\\)&", line)) == len(columns) - 1 for line in lines)
    assert text.count("{") == text.count("}")
    assert all(line.count("$") % 2 == 0 for line in text.splitlines())


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_any_text_is_set_with_braces_and_dollars_in_pairs_and_nothing_that_latex_would_act_on(text):
    made = tex(text)
    assert re.sub(r"\\[&%$#_{}]", "", made).count("{") == re.sub(r"\\[&%$#_{}]", "", made).count("}")
    left = re.sub(r"\\text[a-z]+{}|\$[<>]\$|\\[&%$#_{}]", "", made)
    assert not set(left) & set('\\&%$#_{}~^<>|"')
    assert len(re.findall(r"(?<!\\)\$", made)) % 2 == 0


def test_words_are_set_as_they_are():
    assert tex("50 % of a_b & {c}") == r"50 \% of a\_b \& \{c\}"
    assert tex("~^\\") == r"\textasciitilde{}\textasciicircum{}\textbackslash{}"
