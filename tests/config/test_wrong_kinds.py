"""What is named and is no such part, or given in a form that it has not: refused with the key, never a traceback."""

import pytest

import hpfl
from hpfl.config import ConfigError, idle_settings, load
from hpfl.data.sources import DATASETS

SMALL = [
    "network.edges=2",
    "network.ues_per_edge=1",
    "training.rounds=1",
    "data.samples_per_ue=10",
    "evaluation.test_samples=5",
]
KINDS = [
    "planning.planner",
    "network.channel",
    "network.ue_path_loss",
    "network.channel_options.fading",
    "data.partitioner",
    "learning.method",
    "learning.method_options.gradient",
    "learning.uplink",
    "training.clock",
    "training.combine",
    "training.edge_combine",
    "training.watchers",
    "evaluation.metrics",
    "data.dataset",
]
MAKERS = ["network.channel", "network.edge_path_loss", "learning.method", "learning.uplink", "training.clock"]


def of_six(a, b, c, d, e, f):
    """Called as no part is."""


def anything(*given, **more):
    """Makes what is no part."""
    return 2


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])


@pytest.mark.parametrize("place", KINDS)
def test_what_cannot_be_called_as_its_kind_is_refused_when_it_is_named(place):
    with pytest.raises(ConfigError, match=rf"^{place} is 'test_wrong_kinds:of_six'; it is no .* called with \("):
        load("quickstart-paper", overrides=[f"{place}=test_wrong_kinds:of_six"])


@pytest.mark.parametrize("place", [*MAKERS, "training.watchers"])
def test_what_makes_another_thing_is_refused_before_the_first_round(place):
    config = load("quickstart-paper", overrides=[*SMALL, f"{place}=test_wrong_kinds:anything"])
    with pytest.raises(ConfigError, match=rf"^{place} is 'test_wrong_kinds:anything'; .*: a int lacks "):
        hpfl.run(config, hooks=hpfl.Hooks())


def test_a_combine_rule_that_returns_something_else_is_told_so():
    config = load("quickstart-paper", overrides=[*SMALL, "training.combine=test_wrong_kinds:anything"])
    with pytest.raises(ValueError, match=r"anything returned int; wanted hpfl\.training\.Combined"):
        hpfl.run(config, hooks=hpfl.Hooks())


def test_a_function_is_no_data_set_of_a_registered_name(monkeypatch):
    monkeypatch.setitem(DATASETS._parts, "mine", DATASETS._made("mine", anything, "elsewhere", None, {}))
    with pytest.raises(
        ConfigError, match=r"data\.dataset is .mine.; wanted a DatasetSpec under that name, not function"
    ):
        load("quickstart-paper", overrides=["data.dataset=mine"])


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("planning.planner_options=3", "planning.planner_options is 3; it should be a valid dictionary"),
        ("planning.planner.rho=3", "planning.planner.rho is not a key; did you mean planning.planner_options.rho?"),
        ("planning.rho.x=3", "planning.rho.x is not a key; planning.rho has no options"),
        (
            "learning.uplink_options.x=1",
            "learning.uplink_options is not a key; options of learning.uplink stand in its list: "
            "learning.uplink = [{ name = ..., ... }]",
        ),
        (
            "training.watchers=x",
            "training.watchers is 'x'; no watcher is called 'x'; there are tensorboard, mlflow, wandb",
        ),
    ],
)
def test_an_override_in_a_form_that_there_is_not_is_told_the_right_one(override, said):
    with pytest.raises(ConfigError) as error:
        load("quickstart-paper", overrides=[override])
    assert str(error.value) == said


def test_a_table_of_options_that_is_none_is_refused_beside_an_old_key(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[network]\nfading = "none"\nchannel_options = 3\n')
    with pytest.raises(ConfigError, match=r"network\.channel_options is 3"):
        load(path)


def test_an_old_key_at_its_default_beside_a_part_without_it_is_said_to_change_nothing():
    config = load("quickstart-paper", overrides=["learning.method=fedavg", "learning.objective=exact"])
    assert 'learning.objective = "exact" changes nothing: learning.method is fedavg, so nothing is adapted' in (
        idle_settings(config)
    )
