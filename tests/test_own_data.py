"""Runs on samples that have owners: scored on their own tests, under their own edges, in their own order."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.func import functional_call

import hpfl
from hpfl.config import load, resolve
from hpfl.deployment.own_data import own_data
from hpfl.experiment import Hooks
from hpfl.learning import make_task
from hpfl.reporting.store import read_rounds

SILENT = Hooks()
NUM_USERS, CLASSES = 12, 4
EDGES = [2, 0, 1, 1, 0, 2, 2, 0, 1, 0, 2, 1]


def users(*, edges=EDGES, tested=True, seed=3):
    """Users to whom the same labels mean different things: everyone has names of its own for the same four clusters."""
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(CLASSES, 6))

    def drawn(names, count):
        cluster = rng.integers(CLASSES, size=count)
        return (centres[cluster] + rng.normal(size=(count, 6))).astype(np.float32), names[cluster]

    names = [rng.permutation(CLASSES) for _ in range(NUM_USERS)]
    train = [drawn(own, int(rng.integers(10, 30))) for own in names]
    test = [drawn(own, int(rng.integers(20, 40))) for own in names]
    return hpfl.FederatedData(train=train, test=test if tested else None, edge_of_ue=edges, num_classes=CLASSES)


def config(*overrides):
    plain = ["planning.planner=full", "training.rounds=3", "learning.inner_lr=0.1", "learning.outer_lr=0.1"]
    return load("quickstart-paper", overrides=[*plain, "evaluation.inner_steps=8", *overrides])


def by_hand(model, train, test, *, rate=0.1, steps=8):
    """Accuracy of one user after adapting on its own training samples, in plain torch."""
    task = make_task("mlp", input_shape=(6,), num_outputs=CLASSES)
    params = {name: value.clone() for name, value in model.items()}
    inputs, targets = torch.as_tensor(train[0]), torch.as_tensor(train[1])
    for _ in range(steps):
        wanted = {name: value.requires_grad_() for name, value in params.items()}
        loss = torch.nn.functional.cross_entropy(functional_call(task.module, wanted, (inputs,)), targets)
        grads = torch.autograd.grad(loss, list(wanted.values()))
        params = {name: (v - rate * g).detach() for (name, v), g in zip(wanted.items(), grads, strict=True)}
    outputs = functional_call(task.module, params, (torch.as_tensor(test[0]),))
    return float((outputs.argmax(1) == torch.as_tensor(test[1])).float().mean())


def test_every_user_is_scored_on_its_own_test_samples_after_adapting_on_its_own_training_samples():
    data = users()
    result = hpfl.run(config(), data=data, hooks=SILENT)
    expected = [by_hand(result.model, *pair) for pair in zip(data.train, data.test, strict=True)]
    np.testing.assert_allclose(result.ues["personalised_accuracy"], expected, atol=1e-6)
    assert np.mean(expected) > 0.9 > 0.6 > result.summary["final_global_accuracy"]
    assert result.summary["test_samples"] == "each UE's own test samples"


def test_users_are_reported_in_their_own_order_under_their_own_edges():
    data = users()
    result = hpfl.run(config(), data=data, hooks=SILENT)
    assert result.ues["ue"].tolist() == list(range(NUM_USERS))
    assert result.ues["edge"].tolist() == EDGES
    assert result.ues["samples"].tolist() == [len(targets) for _, targets in data.train]
    assert [set(labels) for labels in result.ues["labels"]] == [set(targets.tolist()) for _, targets in data.train]
    assert (result.summary["num_edges"], result.summary["num_ues"]) == (3, NUM_USERS)


def test_the_order_of_users_changes_no_users_samples():
    data, places = users(), np.argsort(EDGES, kind="stable")
    moved = hpfl.FederatedData(
        train=[data.train[user] for user in places],
        test=[data.test[user] for user in places],
        edge_of_ue=np.asarray(EDGES)[places],
        num_classes=CLASSES,
    )
    one, other = (hpfl.run(config(), data=each, hooks=SILENT) for each in (data, moved))
    assert one.ues["personalised_accuracy"][places].tolist() == other.ues["personalised_accuracy"].tolist()
    assert all(torch.equal(one.model[name], other.model[name]) for name in one.model)


def test_a_function_and_a_folder_give_the_run_that_python_gives(tmp_path, monkeypatch):
    users().save(tmp_path / "users")
    (tmp_path / "my_users.py").write_text(
        f"from hpfl.data.own_files import read_folder\nfrom pathlib import Path\n"
        f"def load():\n    return read_folder(Path({str(tmp_path / 'users')!r}))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    given = hpfl.run(config(), data=users(), hooks=SILENT)
    for source in (f"folder:{tmp_path / 'users'}", "my_users:load"):
        run = hpfl.run(config(f"data.dataset={source}"), hooks=SILENT)
        assert run.summary["final_personalised_accuracy"] == given.summary["final_personalised_accuracy"]
        assert all(torch.equal(run.model[name], given.model[name]) for name in run.model)


def test_users_without_test_samples_are_tested_on_a_share_of_their_own():
    result = hpfl.run(config(), data=users(tested=False), hooks=SILENT)
    assert result.summary["test_samples"] == "0.2 of each UE's own samples, held out of its training"
    assert result.summary["final_personalised_accuracy"] > 0.8


def test_a_data_set_that_is_dealt_says_how_test_samples_were_drawn():
    shape = ["network.edges=2", "network.ues_per_edge=2", "planning.max_edges=2", "training.rounds=1"]
    said = hpfl.run(load("quickstart-paper", overrides=shape)).summary["test_samples"]
    assert said.startswith("40 of the data set's test samples per UE, drawn in the proportions of its training labels")


@pytest.mark.parametrize("system", ["fl", "pfl"])
def test_two_tiers_gather_all_users_under_the_cloud(system):
    two = load("quickstart-paper", system=system, overrides=["training.rounds=1"])
    result = hpfl.run(two, data=users(), hooks=SILENT)
    assert (result.summary["num_edges"], result.summary["num_ues"]) == (1, NUM_USERS)
    assert result.ues["ue"].tolist() == list(range(NUM_USERS))


def test_users_without_edges_fill_the_network_in_order():
    shaped = config("network.edges=3", "network.ues_per_edge=[2, 4, 6]")
    result = hpfl.run(shaped, data=users(edges=None), hooks=SILENT)
    assert result.ues["edge"].tolist() == [0] * 2 + [1] * 4 + [2] * 6
    with pytest.raises(hpfl.ConfigError, match=r"the data set has 12 UEs, the network 200 .*edge_of_ue"):
        hpfl.run(config(), data=users(edges=None), hooks=SILENT)


def test_a_run_on_own_samples_resumes_on_the_same_samples_only(tmp_path):
    whole = hpfl.run(config("training.rounds=4"), data=users(), hooks=SILENT)
    hpfl.run(config("training.rounds=2"), data=users(), out=tmp_path / "run", hooks=SILENT)
    with pytest.raises(Exception, match=r"another configuration|data\.signature"):
        hpfl.run(config("training.rounds=4"), data=users(seed=4), out=tmp_path / "run", resume=True, hooks=SILENT)
    again = hpfl.run(config("training.rounds=4"), data=users(), out=tmp_path / "run", resume=True, hooks=SILENT)
    assert all(torch.equal(again.model[name], whole.model[name]) for name in whole.model)
    assert len(read_rounds(tmp_path / "run")) == 4


def test_samples_that_are_no_longer_those_of_a_saved_run_are_refused(tmp_path):
    users().save(tmp_path / "users")
    hpfl.run(config(f"data.dataset=folder:{tmp_path / 'users'}"), out=tmp_path / "run", hooks=SILENT)
    saved = load(tmp_path / "run" / "config.toml")
    assert (saved.network.edges, saved.network.num_ues) == (3, NUM_USERS)
    hpfl.run(saved, hooks=SILENT)
    users(seed=5).save(tmp_path / "users")
    with pytest.raises(hpfl.ConfigError, match=r"data\.signature is .* they are others than were meant"):
        hpfl.run(saved, hooks=SILENT)


def test_what_was_handed_over_in_python_cannot_be_run_from_its_file(tmp_path):
    hpfl.run(config(), data=users(), out=tmp_path / "run", hooks=SILENT)
    with pytest.raises(hpfl.DatasetError, match=r'data\.dataset is "given".*hpfl\.run\(config, data=\.\.\.\)'):
        hpfl.run(load(tmp_path / "run" / "config.toml"), hooks=SILENT)
    table = pd.read_csv(tmp_path / "run" / "ues.csv")
    assert table["edge"].tolist() == EDGES


def test_a_deployed_ue_has_the_samples_of_its_simulated_twin(tmp_path):
    data = users()
    data.save(tmp_path / "users")
    shaped = config(f"data.dataset=folder:{tmp_path / 'users'}", "network.edges=3", "network.ues_per_edge=[4, 4, 4]")
    for place, user in enumerate(np.argsort(EDGES, kind="stable")):
        own = own_data("", resolve(shaped), place)
        np.testing.assert_array_equal(own.inputs, data.train[user][0])
        np.testing.assert_array_equal(own.test_targets, data.test[user][1])
    with pytest.raises(hpfl.DatasetError, match="has 12 UEs under 3 edges, the experiment 200 under 20"):
        own_data("", resolve(config(f"data.dataset=folder:{tmp_path / 'users'}")), 0)


def slopes(*, seed=1):
    """Users that each have a line of their own through the origin."""
    rng = np.random.default_rng(seed)

    def drawn(slope, count):
        inputs = rng.normal(size=(count, 1)).astype(np.float32)
        return inputs, slope * inputs[:, 0]

    own = rng.uniform(-2, 2, size=NUM_USERS)
    train, test = ([drawn(slope, count) for slope in own] for count in (12, 9))
    return hpfl.FederatedData(train=train, test=test, edge_of_ue=EDGES)


def test_a_regression_is_scored_by_the_loss_on_own_test_samples_and_timed_to_one():
    data = slopes()
    changes = ["learning.loss=mse", "learning.model=torch.nn:Linear", "evaluation.target_loss=0.2"]
    asked = config(*changes, "training.rounds=6", "evaluation.inner_steps=20", "evaluation.every=1")
    asked.learning.model = lambda: torch.nn.Linear(1, 1)
    result = hpfl.run(asked, data=data, hooks=SILENT)
    weight, bias = (result.model[name].double() for name in ("weight", "bias"))
    for user, ((inputs, targets), (test_inputs, test_targets)) in enumerate(zip(data.train, data.test, strict=True)):
        w, b = float(weight), float(bias)
        before = np.mean((w * test_inputs[:, 0] + b - test_targets) ** 2)
        for _ in range(20):
            error = w * inputs[:, 0] + b - targets
            w, b = w - 0.1 * np.mean(2 * error * inputs[:, 0]), b - 0.1 * np.mean(2 * error)
        after = np.mean((w * test_inputs[:, 0] + b - test_targets) ** 2)
        np.testing.assert_allclose(result.ues["test_loss"][user], before, rtol=1e-4)
        np.testing.assert_allclose(result.ues["personalised_test_loss"][user], after, rtol=1e-3, atol=1e-6)
    summary = result.summary
    assert summary["final_personalised_accuracy"] is None or np.isnan(summary["final_personalised_accuracy"])
    assert (summary["target_loss"], summary["target_accuracy"]) == (0.2, None)
    assert summary["final_personalised_test_loss"] < 0.2 < summary["final_test_loss"]
    assert summary["rounds_to_target"] == 1


def test_users_without_test_samples_of_their_own_are_left_out_of_means():
    data = users()
    empty = (np.zeros((0, 6), np.float32), np.zeros(0, np.int64))
    some = hpfl.FederatedData(train=data.train, test=[empty, *data.test[1:]], edge_of_ue=EDGES, num_classes=CLASSES)
    result = hpfl.run(config(), data=some, hooks=SILENT)
    own = result.ues["personalised_accuracy"]
    assert np.isnan(own[0])
    assert not np.isnan(own[1:]).any()
    assert result.summary["final_personalised_accuracy"] == pytest.approx(own[1:].mean())
