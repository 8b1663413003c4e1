"""Settings that do nothing are said; settings that do something are not."""

import pytest

import hpfl
from hpfl.config import SYSTEMS, idle_settings, load, preset_names, resolve, to_toml
from hpfl.config.whole import Config
from hpfl.learning import METHODS, BaseMethod
from hpfl.options import Options, option
from hpfl.registry import part


def said(source="quickstart-paper", *overrides, **more):
    return idle_settings(load(source, overrides=overrides), **more)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["planning.rho=0.5"], "planning.rho = 0.5 changes nothing: planner fastest-v1 does not weigh importance"),
        (["planning.rho=0.8"], "planning.rho = 0.8 changes nothing"),  # asked for, though it is the default
        (["planning.phi=3.0"], "planning.phi = 3.0 changes nothing"),
        (["planning.planner=full", "planning.max_edges=5"], "planning.max_edges = 5 changes nothing: planner full"),
        (["planning.planner=random", "planning.sketch_size=8"], "planning.sketch_size = 8 changes nothing"),
        (["planning.planner=joint", "planning.staleness_price=none"], 'staleness_price = "none" changes nothing'),
        (["network.edges=4"], "planning.max_edges = 15 is as good as 4, the number of edges"),
        (["planning.max_edges=50"], "planning.max_edges = 50 is as good as 20"),
        (["evaluation.ues=500"], "evaluation.ues = 500 is as good as 200, the number of UEs"),
        (["data.concentration=0.1"], "data.concentration = 0.1 changes nothing: partitioner labels does not ask"),
        (["data.partitioner=iid", "data.labels_per_ue=3"], "data.labels_per_ue = 3 changes nothing: partitioner iid"),
        (["learning.inner_lr=0", "learning.inner_steps=3"], "learning.inner_steps = 3 changes nothing"),
        (["learning.inner_lr=0", "evaluation.inner_steps=3"], "evaluation.inner_steps = 3 changes nothing"),
        (["learning.hessian_free_delta=0.01"], "learning.hessian_free_delta = 0.01 changes nothing"),
        (["learning.batches=independent"], 'learning.batches = "independent" changes nothing: batches are full'),
        (["network.carrier_ghz=28.0"], "network.carrier_ghz = 28.0 changes nothing"),
        (["network.ue_path_loss=umi", "network.ue_gain_db=-30.0"], "network.ue_gain_db = -30.0 changes nothing"),
        (["network.reuse=2"], 'network.reuse = 2 changes nothing: network.downlink is "free"'),
        (["network.cloud_power_w=1.0"], "network.cloud_power_w = 1.0 changes nothing"),
        (["life.come_back=0.9"], "life.come_back = 0.9 changes nothing: life.leave is 0"),
        (["life.sample_count=3", "life.sample_fraction=0.5"], "life.sample_fraction = 0.5 changes nothing"),
        (["life.idle_s=2.0"], "life.idle_s = 2.0 changes nothing: somebody is always there"),
        (["evaluation.target_loss=0.1", "evaluation.target_accuracy=0.8"], "evaluation.target_accuracy = 0.8"),
        (["evaluation.metrics=test-loss", "evaluation.target_accuracy=0.8"], "gives personalised_accuracy"),
        (["evaluation.metrics=accuracy", "evaluation.target_loss=0.1"], "gives personalised_test_loss"),
        (
            ["training.clock=event", "network.coherence_s=2.0", "network.coherence_rounds=3"],
            "network.coherence_rounds = 3 changes nothing",
        ),
    ],
)
def test_a_setting_that_nothing_reads_is_said_with_the_reason(overrides, line):
    assert any(line in text for text in said("quickstart-paper", *overrides))


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["planning.planner=joint", "planning.rho=0.5", "planning.phi=2.0"],
        ["planning.planner=random", "planning.importance=sketch", "planning.sketch_size=8"],
        ["planning.planner=random", "planning.max_edges=3"],
        ["data.partitioner=dirichlet", "data.concentration=0.1"],
        ["training.clock=event", "training.trigger=first", "planning.planner=full", "planning.max_edges=3"],
        ["learning.batch_size=5", "learning.batches=independent"],
        ["life.leave=0.1", "life.come_back=0.9", "life.idle_s=2.0"],
        ["network.ue_path_loss=umi", "network.carrier_ghz=28.0", "network.edge_gain_db=-30.0"],
    ],
)
def test_settings_that_are_read_are_not_said(overrides):
    assert said("quickstart-paper", *overrides) == ()


@pytest.mark.parametrize("system", [None, *SYSTEMS])
@pytest.mark.parametrize("name", preset_names())
def test_nothing_is_said_of_what_a_preset_brings_along(name, system):
    config = load(name, system=system)
    assert idle_settings(config) == ()
    assert idle_settings(resolve(config)) == ()  # what "auto" comes to was set by nobody


def test_settings_assigned_in_python_and_read_from_a_file_are_said_alike(tmp_path):
    config = hpfl.preset("quickstart-paper")
    config.planning.rho = 0.5
    (tmp_path / "own.toml").write_text(to_toml(config))
    assert (
        idle_settings(config)
        == idle_settings(load(tmp_path / "own.toml"))
        == said("quickstart-paper", "planning.rho=0.5")
    )


def test_keys_of_dealing_are_said_where_samples_have_owners():
    lines = said("quickstart-paper", "data.edge_skew=1.0", "evaluation.test_samples=9", owned=True)
    assert [line.split(" ")[0] for line in lines] == ["data.edge_skew", "evaluation.test_samples"]


def test_idle_settings_are_said_before_a_run_and_stand_in_its_summary():
    shape = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "training.rounds=1"]
    config = load("quickstart-paper", overrides=[*shape, "planning.rho=0.5"])
    told = []
    result = hpfl.run(config, hooks=hpfl.Hooks(note=told.append))
    assert told == result.summary["idle_settings"]
    assert told == ["planning.rho = 0.5 changes nothing: planner fastest-v1 does not weigh importance against latency"]
    with pytest.warns(UserWarning, match="planning.rho = 0.5 changes nothing"):
        hpfl.run(config)


def test_a_planner_from_elsewhere_may_read_everything(monkeypatch):
    from hpfl.planning.planners import PLANNERS

    monkeypatch.setitem(PLANNERS._parts, "mine", PLANNERS._made("mine", PLANNERS.get("joint"), "elsewhere", None, {}))
    assert said("quickstart-paper", "planning.planner=mine", "planning.rho=0.5", "planning.sketch_size=8") == ()


class Damped(Options):
    delta: float = option(1.0, "of a method that takes no differences")


@part(options=Damped)
class DampedMethod(BaseMethod):
    """A method from elsewhere with an option that has the name of another's."""


def test_an_option_of_another_method_is_not_taken_for_one_of_per_fedavg(monkeypatch):
    made = METHODS._made("damped", DampedMethod, "elsewhere", None, {})
    monkeypatch.setitem(METHODS._parts, "damped", made)
    assert said("quickstart-paper", "learning.method=damped", "learning.method_options.delta=0.5") == ()


def test_what_was_set_is_no_part_of_what_a_configuration_is():
    asked, assigned = load("quickstart-paper", overrides=["training.rounds=7"]), hpfl.preset("quickstart-paper")
    assigned.training.rounds = 7
    assert asked == assigned
    assert asked != Config()
