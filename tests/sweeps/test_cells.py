"""From a study to its cells: how many there are, in which order, under which names, and what is refused beforehand."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hpfl
from hpfl.config import ConfigError
from hpfl.config.travelling import from_plain, to_plain
from hpfl.sweeps.cells import cell_names, cells_of, expanded, num_runs, parts_of
from hpfl.sweeps.study_file import flat, read_study, study_of
from hpfl.sweeps.sweep_folder import study_text

AXES = {
    "network.bandwidth_hz": [1e6, 2e6, 5e6, 1.5e7],
    "planning.rho": [0.1, 0.5, 0.9],
    "planning.planner": ["joint", "fastest", "random"],
    "learning.inner_lr": [0.01, 0.02, 0.03],
    "training.rounds": [1, 2],
}


def study(**tree):
    return study_of({"base": "quickstart", **tree}, where="study.toml")


@st.composite
def grids(draw):
    keys = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True))
    return {key: AXES[key][: draw(st.integers(1, len(AXES[key])))] for key in keys}


@settings(deadline=None, max_examples=40)
@given(grids(), st.integers(1, 4), st.randoms())
def test_a_grid_has_the_product_of_its_axes_in_an_order_of_its_own(grid, seeds, chance):
    made = expanded(study(grid=grid, seeds=seeds))
    assert len(made) == math.prod(map(len, grid.values()))
    assert len({json.dumps(point, sort_keys=True) for point in made}) == len(made)
    assert num_runs(study(grid=grid, seeds=seeds)) == len(made) * seeds
    keys = list(grid)
    chance.shuffle(keys)
    again = expanded(study(grid={key: grid[key] for key in keys}, seeds=seeds))
    assert [list(point.items()) for point in again] == [list(point.items()) for point in made]


@settings(deadline=None, max_examples=40)
@given(grids(), st.integers(1, 3), st.integers(0, 3))
def test_zip_goes_side_by_side_and_cases_one_by_one(grid, rows, cases):
    grid = {key: values for key, values in grid.items() if key not in ("planning.rho", "learning.inner_lr")}
    zipped = {"planning.rho": AXES["planning.rho"][:rows], "learning.inner_lr": AXES["learning.inner_lr"][:rows]}
    named = [{"name": f"case {index}", "network.edges": index + 2} for index in range(cases)]
    made = expanded(study(grid=grid, zip=zipped, cases=named))
    assert len(made) == max(1, cases) * rows * math.prod(map(len, grid.values()))
    pairs = {(point["planning.rho"], point["learning.inner_lr"]) for point in made}
    assert pairs == set(zip(*zipped.values(), strict=True))
    assert {(point["case"], point["network.edges"]) for point in made if cases} == {
        (case["name"], case["network.edges"]) for case in named
    }


WORDS = st.one_of(st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False), st.lists(st.integers()))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(WORDS, WORDS), max_size=6))
def test_names_of_cells_are_folders_names_and_tell_them_apart(values):
    points = [{"data.dataset": one, "planning.rho": other} for one, other in values]
    names = cell_names(points)
    different = {json.dumps(point, sort_keys=True) for point in points}
    assert len(set(names)) == len(different)
    assert not any("/" in name or "\0" in name or name.startswith(".") or len(name) > 120 for name in names)


def test_names_are_short_where_that_is_enough():
    points = [{"network.bandwidth_hz": 1e6, "planning.planner": "mine:planner"}]
    assert cell_names(points) == ["bandwidth_hz=1e6,planner=mine:planner"]
    assert cell_names([{"learning.inner_lr": 0.1, "evaluation.inner_lr": 0.30000000000000004}]) == [
        "learning.inner_lr=0.1,evaluation.inner_lr=0.30000000000000004"
    ]
    assert cell_names([{}]) == ["base"]


def test_every_cell_has_its_own_configuration_and_every_run_its_seed():
    made = study(grid={"planning.planner": ["joint", "random"]}, set={"training.rounds": 7}, seeds=[3, 5])
    cells = cells_of(made, hpfl.preset("quickstart"))
    runs = parts_of(made, cells)
    assert [cell.config.planning.planner for cell in cells] == ["joint", "random"]
    assert [(run.labels["seed"], run.config.training.seed) for run in runs] == [(3, 3), (3, 3), (5, 5), (5, 5)]
    assert {run.config.training.rounds for run in runs} == {7}
    assert len({run.key for run in runs}) == 4


def test_a_system_may_be_an_axis_and_a_case_may_be_one():
    made = study(grid={"system": ["hpfl", "fl"]}, cases=[{"name": "few", "network.ues_per_edge": 3}, {"name": "usual"}])
    cells = cells_of(made, hpfl.preset("quickstart"))
    assert [cell.name for cell in cells] == ["few,system=hpfl", "few,system=fl", "usual,system=hpfl", "usual,system=fl"]
    assert [cell.config.network.edges for cell in cells[:2]] == [20, 1]
    assert cells[2].values["network.ues_per_edge"] == hpfl.preset("quickstart").network.ues_per_edge


def test_a_configuration_arrives_in_another_process_as_it_left():
    for name in ("quickstart", "paper-mnist", "massive"):
        config = hpfl.load(name, overrides=["planning.rho=0.25"])
        again = from_plain(json.loads(json.dumps(to_plain(config))))
        assert again == config
        assert hpfl.resolve(again).fingerprint == hpfl.resolve(config).fingerprint
        assert again.was_set("planning.rho")
    with pytest.raises(ConfigError, match="name it module:callable"):
        to_plain(hpfl.load("quickstart", model=lambda: None))


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (
            {"grid": {"network": {"bandwith_hz": [1e6]}}},
            "network.bandwith_hz is not a key; did you mean network.bandwi",
        ),
        ({"grid": {"bandwidth_hz": [1e6]}}, "bandwidth_hz is not a section; did you mean network.bandwidth_hz"),
        (
            {"grid": {"network.bandwidth_hz": [1e6, "abc", 2e6], "planning.planner": ["joint", "random"]}},
            "cell bandwidth_hz=abc, planner=joint: network.bandwidth_hz is 'abc'; it should be a number",
        ),
        (
            {"grid": {"planning.planner": ["joint", "jiont"]}},
            "cell planner=jiont: planning.planner is 'jiont'; no plan",
        ),
        ({"grid": {"planning.planner": ["nowhere:to_be_found"]}}, "cell planner=nowhere:to_be_found: planning.planner"),
        ({"grid": {"planning.planner": []}}, "grid.planning.planner is .*; it should have a value"),
        ({"grid": {"planning.planner": ["joint", "joint"]}}, "grid has planning.planner = 'joint' twice"),
        ({"grid": {"training.seed": [1, 2]}}, "training.seed is varied by seeds"),
        ({"grid": {"planning.rho": [0.1]}, "set": {"planning.rho": 0.2}}, "planning.rho is in set and in grid"),
        ({"zip": {"planning.rho": [0.1], "learning.inner_lr": [1.0, 2.0]}}, "zip wants equally many values"),
        ({"cases": [{"planning.rho": 0.1}]}, r"cases\[0\] has no name"),
        ({"cases": [{"name": "a"}, {"name": "a"}]}, "two cases are called 'a'"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seeds": [1, 1]}, "a seed is there twice"),
        ({"targets": [90]}, "targets is 90"),
        ({"axes": {}}, "axes is not of a study; it has base, set, grid, zip, cases"),
        ({"outputs": ["png"]}, "outputs is 'png'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(tree, said):
    with pytest.raises(ConfigError, match=said) as refused:
        cells_of(study(**tree), hpfl.preset("quickstart"))
    assert "\n" not in str(refused.value)


def test_a_study_reads_back_from_its_own_file(tmp_path):
    made = study(
        set={"training.rounds": 7, "system": "hfl", "data.samples_per_ue": [5, 9]},
        grid={"planning.planner": ["joint", "mine:planner"], "planning.planner_options.gap": [0.1]},
        cases=[{"name": 'with "quotes"', "learning.uplink": [{"name": "ternary"}]}],
        targets=[0.9, {"loss": 0.12}],
        baseline={"planning": {"planner": "joint"}},
        seeds=[4, 2],
        tune={"trials": 3},
    )
    (tmp_path / "study.toml").write_text(study_text(made))
    assert read_study(tmp_path / "study.toml") == made


def test_tables_of_toml_are_keys_and_options_are_keys_of_their_own():
    nested = {"network": {"edges": [2]}, "planning": {"planner_options": {"gap": [0.1]}}, "system": ["fl"]}
    assert flat(nested) == {"network.edges": [2], "planning.planner_options.gap": [0.1], "system": ["fl"]}
