"""Every method under every planner and clock, through a stop and a resume, and with UEs that never train."""

import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hpfl
from hpfl.config import Config, ConfigError
from hpfl.learning import METHODS, LearningError
from hpfl.planning.planners import PLANNERS
from hpfl.training.clock import CLOCKS

pytestmark = pytest.mark.filterwarnings("ignore:.*changes nothing")
SIZES = (3, 9, 6, 5, 7, 4)
ALL = list(product(METHODS.names(), PLANNERS.names(), CLOCKS.names()))
OFTEN = {
    (method, PLANNERS.names()[place % len(PLANNERS.names())], CLOCKS.names()[place % 2])
    for place, method in enumerate(METHODS.names())
}
STATEFUL = ("apfl", "fedala", "scaffold")


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def samples() -> hpfl.FederatedData:
    draws = np.random.default_rng(0)

    def own(count: int) -> tuple[Any, Any]:
        return draws.normal(size=(count, 4)).astype(np.float32), draws.integers(0, 3, size=count)

    edges = [0, 0, 1, 1, 2, 2]
    return hpfl.FederatedData(train=[own(n) for n in SIZES], test=[own(4) for _ in SIZES], edge_of_ue=edges)


def config(method: str, planner: str = "joint", clock: str = "round", **more: Any) -> Config:
    found = hpfl.preset("quickstart-paper")
    found.learning.method, found.learning.model = method, model
    found.learning.batch_size, found.learning.local_epochs = 4, 1
    found.planning.planner, found.training.clock = planner, clock
    found.planning.max_edges, found.planning.staleness_bound = 2, 2
    found.training.rounds, found.evaluation.every = 5, 2
    for place, value in more.items():
        section, key = place.split("__")
        setattr(getattr(found, section), key, value)
    return found


def played(settings: Config, **options: Any) -> Any:
    return hpfl.run(settings, data=samples(), figures=False, progress=False, **options)


@pytest.mark.parametrize(
    ("method", "planner", "clock"),
    [pytest.param(*one, marks=[] if one in OFTEN else [pytest.mark.slow]) for one in ALL],
)
def test_every_method_runs_under_every_planner_and_clock(method: str, planner: str, clock: str) -> None:
    found = played(config(method, planner, clock))
    assert found.summary["completed"]
    assert min(found.summary["time_s"], found.summary["energy_j"]) > 0
    assert all(torch.isfinite(part).all() for part in found.model.values())
    assert list(found.model) == [name for name, _ in model().named_parameters()]
    sketches = PLANNERS.part(planner).traits["sketches"]
    assert sketches or (found.summary["uplink_bits"] == 0) == METHODS.part(method).traits["silent"]


@pytest.mark.parametrize(
    "method", [pytest.param(one, marks=[] if one in STATEFUL else [pytest.mark.slow]) for one in METHODS.names()]
)
def test_a_stopped_run_resumes_to_the_same_bits(method: str, tmp_path: Path) -> None:
    settings = {"training__checkpoint_every": 1, "life__sample_fraction": 0.5}
    whole = played(config(method, "random", **settings), out=tmp_path / "whole")
    played(config(method, "random", training__rounds=2, **settings), out=tmp_path / "parts")
    parts = played(config(method, "random", **settings), out=tmp_path / "parts", resume=True)
    for name, tensor in whole.model.items():
        assert torch.equal(tensor, parts.model[name])
    for name in ("personalised_accuracy", "meta_loss"):
        np.testing.assert_array_equal(whole.ues[name], parts.ues[name])


KILLED = """
import sys
from test_method_planner_contract import dying

dying(sys.argv[1], sys.argv[2])
"""
KILLED_AS = {"training__checkpoint_every": 2, "life__sample_fraction": 0.5, "training__rounds": 6}


def dying(method: str, out: str) -> None:
    """A run that nobody can stop in good order: it is killed after its fifth round."""
    die = hpfl.Hooks(on_round=lambda one: os.kill(os.getpid(), signal.SIGKILL) if one.round == 5 else None)
    played(config(method, "fastest", **KILLED_AS), out=out, hooks=die)


@pytest.mark.parametrize(
    "method", [pytest.param(one, marks=[] if one == "fedala" else [pytest.mark.slow]) for one in METHODS.names()]
)
def test_a_killed_run_resumes_to_the_same_bits(method: str, tmp_path: Path) -> None:
    here = Path(__file__)
    path = os.pathsep.join([str(here.parent), str(here.parents[2] / "src")])
    words = [sys.executable, "-W", "ignore", "-c", KILLED, method, str(tmp_path / "run")]
    done = subprocess.run(words, env=os.environ | {"PYTHONPATH": path}, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    again = played(config(method, "fastest", **KILLED_AS), out=tmp_path / "run", resume=True)
    whole = played(config(method, "fastest", **KILLED_AS))
    assert all(torch.equal(whole.model[name], again.model[name]) for name in whole.model)
    for name in ("personalised_accuracy", "meta_loss", "energy_j"):
        np.testing.assert_array_equal(whole.ues[name], again.ues[name])


@pytest.mark.parametrize(
    "method",
    [pytest.param(one, marks=[] if one in ("ditto", "fedavg") else [pytest.mark.slow]) for one in METHODS.names()],
)
def test_ues_that_are_held_out_never_train_and_are_evaluated_as_newcomers(method: str) -> None:
    found = played(config(method, "full", data__held_out_ues=2))
    new = np.asarray(found.ues["held_out"], dtype=bool)
    assert new.sum() == 2
    assert (np.asarray(found.ues["energy_j"])[new] == 0).all()
    assert (np.asarray(found.ues["energy_j"])[~new] > 0).all()
    accuracy = np.asarray(found.ues["personalised_accuracy"])
    assert found.summary["final_held_out_personalised_accuracy"] == pytest.approx(accuracy[new].mean())
    assert found.summary["final_personalised_accuracy"] == pytest.approx(accuracy[~new].mean())
    assert found.summary["final_personalised_accuracy_std"] == pytest.approx(accuracy[~new].std())
    assert found.summary["final_personalised_accuracy_worst_tenth"] == accuracy[~new].min()
    assert "best_held_out_personalised_accuracy" in found.summary


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning__method_options": {"mu": 1.0}}, "mu is not an option of method fedper"),
        (
            {"learning__method_options": {"head": ["7"]}},
            "head names '7', which is not in the model; its layers are 0, 2",
        ),
        ({"learning__method_options": {"head": ["0", "2"]}}, "the head .0, 2. is the whole model"),
        ({"data__held_out_ues": 4}, "data.held_out_ues is 4; of 6 UEs at most 3"),
        ({"learning__method": "scaffold", "training__edge_rounds": 2}, "training.edge_rounds is 2; method scaffold"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name_before_the_run(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, LearningError), match=words):
        played(config("fedper", **changes), out=tmp_path / "run")
    assert not (tmp_path / "run" / "rounds.jsonl").exists()


def test_bits_on_the_air_are_those_of_what_travels() -> None:
    bits = {name: played(config(name, "full")).summary["uplink_bits"] for name in ("fedavg", "fedrep", "scaffold")}
    everything, body = 4 * 5 + 5 + 5 * 3 + 3, 4 * 5 + 5
    assert bits["fedrep"] / bits["fedavg"] == pytest.approx(body / everything)
    assert bits["scaffold"] / bits["fedavg"] == pytest.approx(2.0)
