"""Parts with options of their own, and the keys that are called otherwise now."""

import tomllib

import pytest
import torch

import hpfl
from hpfl.config import ConfigError, fingerprint, load, resolve, to_toml
from hpfl.config.named import slots_of
from hpfl.config.old_keys import OLD_KEYS, was
from hpfl.config.whole import Config
from hpfl.data.sources import load_dataset
from hpfl.learning.uplink import UPLINKS
from hpfl.options import Options, option
from hpfl.planning.planners import PLANNERS
from hpfl.registry import part
from hpfl.simulation.simulated_run import build_simulation

SLOTS = [(s, name) for s, info in Config.model_fields.items() for name in slots_of(info.annotation)]
GIVEN = {  # an old key, another value than its default, and what it takes for something to read it
    "training.aggregation": ("mean", ()),
    "network.fading": ("none", ()),
    "learning.objective": ("first-order", ()),
    "learning.hessian_free_delta": (0.5, ()),
    "planning.script": ([[0], [1, 2]], ("planning.planner=scripted",)),
    "planning.staleness_price": ("none", ("planning.planner=fastest",)),
}


class Patience(Options):
    patience: float = option(2.0, "how long it waits", unit="s", gt=0)


@part(options=Patience)
def patient(*args, options, **more):
    """A part of any kind that has an option."""
    return options.patience


def lines(overrides):
    with pytest.raises(ConfigError) as error:
        load("quickstart-paper", overrides=overrides)
    return str(error.value).splitlines()


@pytest.mark.parametrize(("section", "name"), SLOTS)
def test_every_kind_takes_module_and_callable_with_options(section, name, monkeypatch):
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])
    place = f"{section}.{name}"
    named = [f"{place}=test_parts:patient", f"{place}_options.patience=3.0"]
    experiment = resolve(load("quickstart-paper", overrides=named))
    assert experiment.part(place)() == 3.0
    assert resolve(load("quickstart-paper", overrides=named[:1])).part(place)() == 2.0
    assert fingerprint(load("quickstart-paper", overrides=named)) != fingerprint(
        load("quickstart-paper", overrides=named[:1])
    )
    assert lines([*named[:1], f"{place}_options.patience=-1.0"]) == [
        f"{place}_options.patience is -1.0; it should be greater than 0"
    ]
    assert load("quickstart-paper", overrides=named) == _read_back(load("quickstart-paper", overrides=named))


def _read_back(config):
    return Config.model_validate(tomllib.loads(to_toml(config)))


def test_options_of_another_part_are_refused_by_name():
    assert lines(["planning.planner=joint", "planning.planner_options={script=[[0]], gamma=1}"]) == [
        "planning.planner_options.script is not an option; planner joint has no options",
        "planning.planner_options.gamma is not an option; planner joint has no options",
    ]
    assert lines(["planning.planner_options.gamma=1"]) == [
        "planning.planner_options.gamma is not an option of planner fastest-v1; it has staleness_price"
    ]


def test_a_part_that_is_exchanged_leaves_its_options_behind():
    config = load("quickstart-paper", overrides=["planning.planner=scripted", "planning.planner_options.script=[[3]]"])
    assert hpfl.config.with_overrides(config, ["planning.planner=joint"]).planning.planner_options == {}


def test_the_order_of_overrides_does_not_matter(tmp_path):
    (tmp_path / "mine.toml").write_text(to_toml(load("quickstart-paper")))  # with the options of its own planner
    asked = ["planning.planner_options.script=[[3]]", "planning.planner=scripted"]
    made = [load(tmp_path / "mine.toml", overrides=order) for order in (asked, asked[::-1])]
    assert made[0] == made[1]
    assert made[0].planning.planner_options == {"script": [[3]]}


def test_options_at_their_defaults_are_the_same_experiment():
    plain = load("quickstart-paper")
    said = load("quickstart-paper", overrides=["planning.planner_options={staleness_price='learned'}"])
    assert said == plain
    assert fingerprint(said) == fingerprint(plain)


def test_a_row_of_parts_is_names_and_tables(monkeypatch):
    monkeypatch.setitem(UPLINKS._parts, "mine", UPLINKS._made("mine", patient, "elsewhere", None, {}))
    config = load("quickstart-paper", overrides=['learning.uplink=["mine", {name="mine", patience=5.0}]'])
    assert [(name, made()) for name, made in resolve(config).parts("learning.uplink")] == [("mine", 2.0), ("mine", 5.0)]
    assert config == _read_back(config)
    assert load("quickstart-paper", overrides=["learning.uplink=mine"]).learning.uplink == ["mine"]
    assert (
        "[1].patience is 0; it should be greater than 0"
        in lines(['learning.uplink=["mine", {name="mine", patience=0}]'])[0]
    )
    assert "no uplink step is called 'nobody'" in lines(["learning.uplink=nobody"])[0]
    assert "a table { name = ..., ... }" in lines(["learning.uplink=[3]"])[0]


def test_watchers_are_no_part_of_a_fingerprint_and_metrics_are(monkeypatch):
    from hpfl.learning.metrics import METRICS
    from hpfl.training.watching import WATCHERS

    for registry in (METRICS, WATCHERS):
        monkeypatch.setitem(registry._parts, "mine", registry._made("mine", patient, "elsewhere", None, {}))
    base = fingerprint(load("quickstart-paper"))
    assert fingerprint(load("quickstart-paper", overrides=["training.watchers=mine"])) == base
    assert fingerprint(load("quickstart-paper", overrides=['evaluation.metrics=["accuracy", "mine"]'])) != base


@pytest.mark.parametrize("old", OLD_KEYS, ids=lambda old: old.old)
def test_an_old_key_is_the_new_one_in_files_overrides_and_python(old, tmp_path):
    value, also = GIVEN[old.old]
    section, name = old.old.split(".")
    new = load("quickstart-paper", overrides=[*also, f"{old.new}={value!r}"])
    by_old = load("quickstart-paper", overrides=[*also, f"{old.old}={value!r}"])
    path = tmp_path / "mine.toml"
    path.write_text(
        to_toml(load("quickstart-paper", overrides=also)).replace(f"[{section}] ", f"[{section}]\n{name} = {value!r} ")
    )
    assigned = load("quickstart-paper", overrides=also)
    setattr(getattr(assigned, section), name, value)
    text = path.read_text() if old.part == "" else _without_table(path.read_text(), old)
    path.write_text(text)
    assert new == by_old == load(path) == assigned
    assert getattr(getattr(resolve(new), section), name) == value
    assert was(old.new) == old.old
    assert f"(was {old.old})" in to_toml(new)


def _without_table(text, old):
    """The file without the option by its new name."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(f"{old.option} = ") or "was" not in line)


def test_an_old_and_a_new_key_that_disagree_are_refused_naming_both():
    both = ["learning.objective=exact", "learning.method_options.gradient=first-order"]
    said = (
        "learning.objective is 'exact' and learning.method_options.gradient is 'first-order'; the first is an old name"
    )
    assert lines(both)[0].startswith(said)
    assert (
        load("quickstart-paper", overrides=[both[0], "learning.method_options.gradient=exact"]).learning.objective
        == "exact"
    )
    scripted = ["planning.planner=scripted", "planning.script=[[0]]", "planning.planner_options.script=[[1]]"]
    assert "planning.script is [[0]] and planning.planner_options.script is [[1]]" in lines(scripted)[0]


def test_an_old_key_that_the_chosen_part_does_not_read_is_refused():
    assert lines(["learning.method=fedavg", "learning.objective=first-order"]) == [
        'learning.objective is \'first-order\', and learning.method is "fedavg"; only "per-fedavg" reads it, as '
        "learning.method_options.gradient"
    ]
    assert 'only "scripted" reads it' in lines(["planning.planner=joint", "planning.script=[[0]]"])[0]


def test_the_price_of_age_waits_for_the_planner_that_reads_it():
    config = load("quickstart-paper", overrides=["planning.planner=joint", "planning.staleness_price=none"])
    assert _read_back(config) == config
    back = hpfl.config.with_overrides(config, ["planning.planner=fastest"])
    assert back.planning.planner_options == {"staleness_price": "none"}
    assert hpfl.config.with_overrides(back, ["planning.planner=joint"]) == config
    assert lines(["planning.planner=joint", "planning.staleness_price=high"])[0].startswith(
        "planning.planner_options.staleness_price is 'high'"
    )


def test_a_system_may_stand_in_a_file_or_an_override(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('system = "hfl"\n[training]\nrounds = 3\n')
    assert load(path).learning.inner_lr == 0.0
    assert load("quickstart-paper", overrides=["system=shpfl"]) == load("quickstart-paper", system="shpfl")
    assert hpfl.config.with_overrides(load("quickstart-paper"), ["system=shpfl"]) == load(
        "quickstart-paper", system="shpfl"
    )
    with pytest.raises(ConfigError, match="--system is 'fl' and system in the file is 'hfl'; give one"):
        load(path, system="fl")


def test_an_experiment_is_fixed_and_resolved_once():
    experiment = resolve(load("quickstart-paper"))
    assert resolve(experiment) is experiment
    with pytest.raises(AttributeError, match="is of an experiment, which is fixed"):
        experiment.planning.rho = 0.5
    with pytest.raises(AttributeError):
        experiment.phi = 1.0
    assert experiment.phi == experiment.planning.phi == pytest.approx(5 * 0.07 * 20**2 / 15)
    assert experiment.adaptation_lr == 0.03
    assert experiment.written.planning.phi == "auto"


def test_a_run_checks_its_configuration_once(monkeypatch):
    from hpfl.config import resolved as module

    seen, validated = [], module.validated
    monkeypatch.setattr(module, "validated", lambda tree: seen.append(1) or validated(tree))
    shape = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "training.rounds=1"]
    hpfl.run(load("quickstart-paper", overrides=shape))
    assert len(seen) == 1


def test_method_fedavg_is_per_fedavg_without_an_inner_step():
    shape = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "training.rounds=2"]
    plain = hpfl.run(load("quickstart-paper", overrides=[*shape, "learning.method=fedavg"]))
    zero = hpfl.run(load("quickstart-paper", overrides=[*shape, "learning.inner_lr=0.0", "evaluation.inner_lr=0.03"]))
    assert all((plain.model[name] == value).all() for name, value in zero.model.items())


def test_planners_are_told_nothing_in_their_memory():
    shape = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "training.rounds=1"]
    config = load("quickstart-paper", overrides=[*shape, "planning.planner=scripted", "planning.script=[[1]]"])
    made = build_simulation(config, load_dataset("mnist-mini"), device=torch.device("cpu"), stopwatch=float)
    assert made.start.memory == {}
    assert made.parts.planner.keywords["options"].script == [[1]]
    assert PLANNERS.part("fastest").traits["sketches"]
