"""Parts that are handed over in Python: each kind, what the file says of them, who may go on, and who replaces whom."""

import importlib
import re
import sys

import numpy as np
import pytest
import torch
from torch import nn

import hpfl
from hpfl.config import fingerprint
from hpfl.data import Dataset
from hpfl.learning import BaseMethod, Local
from hpfl.network import Gains
from hpfl.planning import PLANNERS, plan_for_set
from hpfl.registry import Registry
from hpfl.training import Combined

SMALL = [
    "network.edges=3",
    "network.ues_per_edge=2",
    "data.samples_per_ue=[5, 9]",
    "evaluation.test_samples=5",
    "planning.max_edges=2",
    "planning.staleness_bound=3",
    "training.rounds=3",
    "training.checkpoint_every=1",
]


def small(*overrides):
    return hpfl.load("quickstart-paper", overrides=[*SMALL, *overrides])


def first_edge(name):
    """A planner made in a function, so that no name leads to it."""

    def planner(problem, memory, stream):
        chosen = np.arange(problem.num_edges) == 0
        return plan_for_set(problem, chosen | (problem.staleness >= problem.staleness_bound), name), memory

    return planner


def test_a_planner_can_be_a_function_and_the_file_says_so(tmp_path):
    result = hpfl.run(small(), out=tmp_path, planner=first_edge("mine"), figures=False)
    assert result.rounds[0]["scheduled"] == [0]
    (line,) = [line for line in (tmp_path / "config.toml").read_text().splitlines() if line.startswith("planner = ")]
    assert re.match(r'planner = "given:planner-[0-9a-f]{8}" # .*this one was handed over in Python', line)


def test_a_run_with_a_part_of_ones_own_goes_on_with_the_same_and_with_no_other(tmp_path):
    stopped = hpfl.Hooks(should_stop=lambda: True)
    hpfl.run(small(), out=tmp_path, planner=first_edge("mine"), hooks=stopped, figures=False)
    with pytest.raises(Exception, match=r"planning.planner is 'given:planner-.*' here, 'given:planner-.*' in the run"):
        hpfl.run(small(), out=tmp_path, planner=first_edge("another"), resume=True, figures=False)
    assert hpfl.run(small(), out=tmp_path, planner=first_edge("mine"), resume=True, figures=False).completed


def test_the_command_refuses_to_go_on_without_what_was_handed_over(tmp_path):
    hpfl.run(small("training.rounds=1"), out=tmp_path, planner=first_edge("mine"), figures=False)
    PLANNERS._given.clear()  # as in another process
    with pytest.raises(hpfl.ConfigError, match="that planner was handed over in Python"):
        hpfl.load(tmp_path / "config.toml")


def plain_steps():
    class Plain(BaseMethod):
        roles = ("support",)

        def local(self, steps, params, kept, training):
            found = steps[0].gradient(params)
            return Local(found.direction, kept, found.loss, found.loss)

        def personal(self, ue, params, kept, training):
            return params

    return Plain


def even_links(gain):
    class Even:
        def gains(self, block, places, streams):
            return Gains(np.full(places.ue_distance_m.size, gain), np.full(places.edge_distance_m.size, gain))

    return Even()


def test_method_combine_channel_and_metric_can_be_objects_and_make_the_difference_they_should():
    def mean(contributions, state):
        values = torch.stack([one.update for one in contributions]).double()
        return Combined(values.mean(dim=0), np.full(len(values), 1 / len(values)), state)

    @hpfl.part(columns=("personalised_sureness", "sureness"), worst="low")
    def sureness(tests):
        return tests.mean(tests.outputs.softmax(-1).amax(-1))

    usual = hpfl.run(small())
    for parts in ({"method": plain_steps()}, {"method": plain_steps()()}, {"channel": even_links(1e-9)}):
        other = hpfl.run(small(), **parts)
        assert (
            other.rounds[-1]["time_s"] != usual.rounds[-1]["time_s"]
            or other.rounds[-1]["loss"] != (usual.rounds[-1]["loss"])
        )
    same = hpfl.run(small(), combine=mean, metrics=["accuracy", sureness, {"name": "test-loss"}])
    assert same.rounds[-1]["loss"] == pytest.approx(usual.rounds[-1]["loss"], rel=1e-5)
    assert 0.1 <= same.summary["final_sureness"] <= 1
    assert "sureness" in same.ues


def test_a_loss_and_a_model_can_be_objects():
    def doubled(outputs, targets):
        return 2 * nn.functional.cross_entropy(outputs, targets, reduction="none")

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(784, 10)

        def forward(self, inputs):
            return self.last(inputs.flatten(1))

    result = hpfl.run(small(), model=Flat, loss=doubled)
    assert result.summary["num_parameters"] == 7850
    assert 2 < result.rounds[-1]["loss"] < 6


def few_samples():
    inputs = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    labels = (inputs.sum(1) > 0).astype(np.int64)
    return Dataset("ours", inputs, labels, 2, inputs[:40], labels[:40], sample_bits=128)


def test_data_can_be_a_function_that_returns_them():
    result = hpfl.run(small("data.labels_per_ue=1"), data=few_samples, model=lambda: nn.Linear(4, 2))
    assert result.summary["dataset"] == "given"
    named = hpfl.run(small("data.labels_per_ue=1"), dataset=few_samples, model=lambda: nn.Linear(4, 2))
    assert named.summary["dataset"] == "test_handed_parts:few_samples"
    assert named.rounds[-1]["loss"] == result.rounds[-1]["loss"]


class RestOptions(hpfl.Options):
    """Options of the planner below."""

    first: int = hpfl.option(0, "the edge that is called", ge=0)


def test_a_part_that_is_handed_over_takes_its_options():
    @hpfl.part(options=RestOptions)
    def one_edge(problem, memory, stream, *, options):
        return plan_for_set(problem, np.arange(problem.num_edges) == options.first, "one"), memory

    result = hpfl.run(small("training.rounds=1"), planner=one_edge, planner_options={"first": 2})
    assert result.rounds[0]["scheduled"] == [2]
    with pytest.raises(hpfl.ConfigError, match=r"planning.planner_options.first is -1; it should be greater than"):
        hpfl.run(small(), planner=one_edge, planner_options={"first": -1})


def test_a_part_can_be_assigned_and_one_that_can_be_imported_keeps_its_name():
    config = small()
    config.planning.planner = first_edge("mine")
    assert config.planning.planner.startswith("given:planner-")
    config.data.dataset = few_samples
    assert config.data.dataset == "test_handed_parts:few_samples"
    config.planning.planner = PLANNERS.part("joint").made
    assert config.planning.planner == "joint"


def test_code_and_what_it_closes_over_tell_parts_apart():
    def scaled(by, offset=0):
        class Scaled:
            shift = offset

            def __init__(self, settings):
                pass

            def gains(self, block, places, streams):
                return Gains(by * places.ue_distance_m, places.edge_distance_m)

        return Scaled

    names = {}
    for one in (first_edge("a"), first_edge("b"), first_edge("a")):
        names.setdefault(fingerprint(hpfl.load("quickstart-paper", overrides=SMALL, planner=one)), []).append(one)
    assert len(names) == 2
    made = [scaled(1.0), scaled(2.0), scaled(1.0, offset=3), scaled(1.0)]
    chosen = [hpfl.load("quickstart-paper", overrides=SMALL, channel=one).network.channel for one in made]
    assert len(set(chosen)) == 3
    assert chosen[0] == chosen[3]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"planer": 1}, "planer is no part that can be handed over; did you mean planner?"),
        ({"planner": lambda problem: None}, "it is no planner, for these are called with"),
        ({"channel": object()}, "wanted a channel: a name or a callable, not object, that lacks gains"),
        ({"planner": "jiont"}, "planning.planner is 'jiont'; no planner is called 'jiont'"),
        ({"planner": 3}, "planning.planner is 3; it should be a valid string"),
    ],
)
def test_what_is_no_part_is_refused_in_a_sentence(parts, said):
    with pytest.raises(hpfl.ConfigError) as error:
        hpfl.run(small(), **parts)
    assert said in str(error.value)


# registering again


def registered_in(module, registry, qualname="mine"):
    def mine():
        """One part."""

    mine.__module__, mine.__qualname__ = module, qualname
    return registry.register("mine")(mine)


@pytest.mark.parametrize("module", ["__main__", "my_parts"])
def test_a_cell_or_a_module_that_is_run_again_replaces_its_part(module):
    registry = Registry("thing")
    registered_in(module, registry)
    second = registered_in(module, registry)
    assert registry.get("mine") is second


def test_a_renamed_function_of_a_notebook_replaces_too():
    registry = Registry("thing")
    registered_in("__main__", registry)
    assert registry.get("mine") is not registered_in("__main__", registry, "other")


@pytest.mark.parametrize(
    ("first", "second"),
    [(("theirs", "mine"), ("ours", "mine")), (("theirs", "a"), ("theirs", "b")), (("theirs", "m"), ("__main__", "m"))],
)
def test_two_packages_and_two_functions_of_one_still_cannot_have_one_name(first, second):
    registry = Registry("thing")
    registered_in(first[0], registry, first[1])
    with pytest.raises(ValueError, match="thing 'mine' is registered twice"):
        registered_in(second[0], registry, second[1])


def test_a_module_that_is_loaded_again_replaces_what_it_registered(tmp_path, monkeypatch):
    (tmp_path / "reloaded_parts.py").write_text(
        "from hpfl.planning import PLANNERS\n@PLANNERS.register('reloaded')\ndef mine(problem, memory, stream): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("reloaded_parts")
    try:
        module = importlib.reload(module)
        assert PLANNERS.part("reloaded").made is module.mine
    finally:
        del PLANNERS._parts["reloaded"], sys.modules["reloaded_parts"]


# faults


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("network", "bandwidth_hz", -1, "network.bandwidth_hz is -1; it should be greater than 0"),
        ("network", "bandwith_hz", 1.0, "network.bandwith_hz is not a key; did you mean network.bandwidth_hz?"),
        ("planning", "planner", "jiont", "planning.planner is 'jiont'; no planner is called 'jiont'"),
    ],
)
def test_a_fault_in_python_reads_as_at_the_command_line(section, key, value, said):
    config = small()
    with pytest.raises(hpfl.ConfigError) as assigned:
        setattr(getattr(config, section), key, value)
    with pytest.raises(hpfl.ConfigError) as overridden:
        small(f"{section}.{key}={value}")
    with pytest.raises(hpfl.ConfigError) as made:
        hpfl.Config(**{section: {key: value}})
    assert said in str(assigned.value) == str(overridden.value) == str(made.value)
    assert assigned.value.__cause__ is None
    assert assigned.value.__suppress_context__


def test_a_notebook_shows_the_own_line_and_the_sentence_of_a_refusal(tmp_path):
    config = small("training.rounds=1")
    hpfl.run(config, out=tmp_path, figures=False)
    with pytest.raises(Exception, match="not empty") as error:
        hpfl.run(config, out=tmp_path)
    shown = error.value._render_traceback_()
    assert len(shown) == 2
    assert "hpfl.run(config, out=tmp_path)" in shown[0]
    assert shown[1].startswith(f"OutputError: {tmp_path} is not empty")
    assert error.value.__suppress_context__


def test_a_notebook_shows_where_in_a_model_of_ones_own_an_error_came_from():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(3, 10)

        def forward(self, inputs):
            return self.last(inputs.flatten(1))

    with pytest.raises(Exception, match="model") as error:
        hpfl.run(small(), model=Wrong)
    shown = "\n".join(error.value._render_traceback_())
    assert "hpfl.run(small(), model=Wrong)" in shown
    assert len(shown.splitlines()) < 8
