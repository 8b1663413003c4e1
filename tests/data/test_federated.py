"""Samples that have owners: order, test sets and edges as the owners say."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpfl.data.dataset import DatasetError
from hpfl.data.federated import FederatedData
from hpfl.data.own_files import read_folder
from hpfl.data.owned import own_shards
from hpfl.data.sources import load_dataset
from hpfl.rng import Streams


def users(sizes, tests=None, *, edges=None, **more):
    """Users whose samples say whose they are: input `[user, sample]`."""

    def part(user, count, offset):
        numbers = offset + np.arange(count, dtype=np.float32)
        return np.stack([np.full(count, user, np.float32), numbers], axis=1), np.arange(count) % 2

    train = [part(user, count, 0) for user, count in enumerate(sizes)]
    test = None if tests is None else [part(user, count, 1000) for user, count in enumerate(tests)]
    return FederatedData(train=train, test=test, edge_of_ue=edges, **more)


def held(data, *, seed=0):
    """The inputs each UE of the network trains and is tested on, UEs sorted by edge."""
    dataset = data.dataset
    edges = dataset.owners.edge_of_ue
    places = np.arange(data.num_ues) if edges is None else np.argsort(edges, kind="stable")
    found = []
    shards = own_shards(dataset.owners, places, Streams(seed))
    for part, inputs in zip(shards, (dataset.inputs, dataset.test_inputs), strict=True):
        rows, offsets = part.source_rows()
        found.append([inputs[rows[a:b]] for a, b in itertools.pairwise(offsets)])
    return places, found[0], found[1]


def test_every_user_trains_and_is_tested_on_its_own_samples_in_the_users_order():
    _, train, test = held(users([3, 1, 2], [2, 4, 1]))
    assert [part[:, 0].tolist() for part in train] == [[0] * 3, [1], [2] * 2]
    assert [part[:, 1].tolist() for part in test] == [[1000, 1001], [1000, 1001, 1002, 1003], [1000]]


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12))
def test_whatever_edge_a_user_sits_under_its_samples_stay_its_own(rows):
    sizes, tests, drawn = zip(*rows, strict=True)
    edges = np.unique(drawn, return_inverse=True)[1]
    places, train, test = held(users(sizes, tests, edges=edges))
    assert (np.diff(edges[places]) >= 0).all()
    for ue, user in enumerate(places):
        assert train[ue][:, 0].tolist() == [user] * sizes[user]
        assert test[ue][:, 0].tolist() == [user] * tests[user]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.floats(0.05, 0.95))
def test_held_out_samples_are_a_share_of_each_users_own_and_never_trained_on(sizes, share):
    _, train, test = held(users(sizes, held_out=share))
    for user, size in enumerate(sizes):
        both = np.concatenate([train[user], test[user]])
        assert both[:, 0].tolist() == [user] * size
        assert sorted(both[:, 1]) == list(range(size))
        assert len(test[user]) == (0 if size == 1 else min(max(round(share * size), 1), size - 1))


def test_what_is_held_out_is_drawn_by_the_seed():
    data = users([20, 20])
    one, again, other = (held(data, seed=seed)[2] for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_whole_number_targets_are_classes_and_others_a_regression():
    inputs = np.zeros((4, 2))
    classes = FederatedData(train=[(inputs, [0, 1, 4, 2])]).dataset
    values = FederatedData(train=[(inputs, np.zeros((4, 3)))]).dataset
    assert (classes.num_classes, classes.num_outputs) == (5, 5)
    assert (values.num_classes, values.num_outputs) == (None, 3)


def test_bytes_stay_bytes_tokens_stay_whole_numbers_and_the_rest_is_float32():
    def kept(values):
        return FederatedData(train=[(values, [0, 1])]).dataset.inputs.dtype

    assert kept(np.zeros((2, 3), np.uint8)) == np.uint8
    assert kept(torch.zeros(2, 3, dtype=torch.int32)) == np.int64
    assert kept([[0.0, 1.0], [2.0, 3.0]]) == np.float32


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"train": []}, "train is empty; wanted inputs and targets of at least one UE"),
        ({"train": [([[0.0]], [0]), ([], [])]}, r"train\[1\]"),
        ({"train": [([[0.0]], [0, 1])]}, r"train\[0\]: 1 inputs but 2 targets"),
        ({"train": [([[0.0]], [0])], "test": []}, "test has 0 UEs, train has 1; wanted as many"),
        ({"train": [([[0.0]], [0]), ([[0.0, 1.0]], [0])]}, r"train\[1\]: inputs are float32 of shape \(2,\)"),
        ({"train": [([[0.0]], [0])], "test": [([[0.0]], [0.5])]}, r"test\[0\]: targets are float32 .* int64"),
        ({"train": [([[0.0]], [0])], "edge_of_ue": [0, 1]}, r"edge_of_ue is int64 of shape \(2,\); wanted one"),
        ({"train": [([[0.0]], [0])], "edge_of_ue": [3]}, "names 1 edges from 3 to 3; edges are numbered from 0"),
        ({"train": [([[0.0]], [0])] * 2, "edge_of_ue": [0, -1]}, "from -1 to 0"),
        ({"train": [([[0.0]], [0])], "held_out": 0.0}, "held_out is 0.0; wanted a share between 0 and 1"),
        ({"train": [([[0.0]], [1])], "num_classes": 1}, "targets must be int64 classes from 0 to 0"),
        ({"train": [([[0.0]], [0.5])], "num_classes": 3}, "num_classes is 3, and targets are float32"),
        ({"train": [([[np.nan]], [0])]}, "some inputs are not finite"),
        ({"train": [(["a"], [0])]}, r"train\[0\]: inputs are <U1"),
        ({"train": [7]}, r"train\[0\] is int; wanted a pair"),
    ],
)
def test_samples_that_are_half_right_are_refused_saying_where(data, fault):
    with pytest.raises(DatasetError, match=fault):
        FederatedData(**data)


@pytest.mark.parametrize("edges", [None, [1, 0, 1, 2, 0, 1, 1, 1, 2, 0, 1, 0]])
@pytest.mark.parametrize("tests", [None, list(range(12))])
def test_saved_samples_are_read_back_in_the_same_order(tmp_path: Path, edges, tests):
    data = users(list(range(1, 13)), tests, edges=edges, num_classes=7, sample_bits=11, held_out=0.25)
    data.save(tmp_path / "users")
    again = load_dataset(f"folder:{tmp_path / 'users'}")
    assert again.signature == data.dataset.signature
    assert (again.num_classes, again.sample_bits, again.owners.held_out) == (7, 11, 0.25)


def test_a_folder_may_hold_a_folder_of_arrays_or_a_packed_file_per_user(tmp_path: Path):
    for user in (2, 10):  # ten comes after two
        (tmp_path / f"user{user}").mkdir()
        np.save(tmp_path / f"user{user}" / "inputs.npy", np.full((2, 1), user, np.float32))
        np.save(tmp_path / f"user{user}" / "targets.npy", np.array([0, 1]))
    np.savez(tmp_path / "user3.npz", inputs=np.full((1, 1), 3, np.float32), targets=np.array([1]))
    data = read_folder(tmp_path)
    assert [int(inputs[0, 0]) for inputs, _ in data.train] == [2, 3, 10]
    assert data.test is None
    assert data.edge_of_ue is None


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda folder: (folder / "edge-0" / "ue-0.safetensors").write_bytes(b"damaged"), "holds no data"),
        (lambda folder: (folder / "about.json").write_text("{"), "about.json is not JSON"),
        (lambda folder: (folder / "about.json").write_text(json.dumps({"classes": 3})), "classes is 3; it may have"),
        (lambda folder: np.savez(folder / "ue-9.npz", inputs=[[0.0, 0.0]], targets=[0]), "has UEs .* beside folders"),
        (lambda folder: np.savez(folder / "edge-0" / "ue-9.npz", inputs=[[0.0, 0.0]], targets=[0]), "no test samples"),
        (lambda folder: np.savez(folder / "edge-0" / "ue-9.npz", targets=[0]), "'inputs"),
    ],
)
def test_a_folder_that_is_half_right_is_refused_saying_where(tmp_path: Path, spoil, fault):
    users([2, 2], [1, 1], edges=[0, 1]).save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(DatasetError, match=fault):
        read_folder(tmp_path)


def test_other_samples_have_another_signature():
    names = {
        users([2, 3], [1, 1]).dataset.signature,
        users([3, 2], [1, 1]).dataset.signature,
        users([2, 3]).dataset.signature,
        users([2, 3], held_out=0.3).dataset.signature,
        users([2, 3], [1, 1], edges=[0, 1]).dataset.signature,
        users([2, 3], [1, 1], edges=[1, 0]).dataset.signature,
        users([2, 3], [1, 1], num_classes=3).dataset.signature,
    }
    assert len(names) == 7
    assert users([2, 3]).dataset.signature == users([2, 3]).dataset.signature


def test_a_name_that_stands_for_no_samples_is_refused(tmp_path: Path):
    with pytest.raises(DatasetError, match="handed over in Python; hand them over again"):
        load_dataset("given")
    with pytest.raises(DatasetError, match="is not a folder; folder:PATH wants one"):
        load_dataset(f"folder:{tmp_path / 'nowhere'}")
    with pytest.raises(DatasetError, match="holds no UE"):
        load_dataset(f"folder:{tmp_path}")
    with pytest.raises(DatasetError, match=r"os:getcwd returned str; wanted hpfl.FederatedData"):
        load_dataset("os:getcwd")
