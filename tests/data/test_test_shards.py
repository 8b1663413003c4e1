import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.data.partition import PARTITIONERS, PartitionError, PartitionSettings, make_shards, make_test_shards
from hpfl.rng import Streams

TRAIN = np.repeat(np.arange(10), 1200)
TEST = np.repeat(np.arange(10), 200)


@pytest.mark.parametrize("partitioner", PARTITIONERS.names())
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), test_samples=st.integers(1, 100))
def test_test_samples_follow_a_ues_own_labels(partitioner: str, seed: int, test_samples: int) -> None:
    streams = Streams(seed)
    sizes = 20 + streams.at("samples").integers(41, 200)
    train = make_shards(
        partitioner, TRAIN, num_classes=10, sizes=sizes, settings=PartitionSettings(), streams=streams
    ).label_counts(TRAIN, 10)
    shards = make_test_shards(TEST, train, test_samples=test_samples, streams=streams)
    test = shards.label_counts(TEST, 10)
    assert (shards.sizes == test_samples).all()
    assert (np.abs(test - test_samples * train / train.sum(axis=1, keepdims=True)) < 1 + 1e-9).all()
    assert (test[train == 0] == 0).all()


def test_a_ues_test_samples_are_all_different_and_not_every_ues_the_same() -> None:
    train = np.full((30, 10), 4)
    shards = make_test_shards(TEST, train, test_samples=500, streams=Streams(0))
    rows = shards.source_rows()[0].reshape(30, 500)
    assert all(len(np.unique(part)) == 500 for part in rows)
    assert len(np.unique(np.sort(rows, axis=1), axis=0)) == 30


def test_more_test_samples_than_a_label_has_are_refused_with_the_numbers() -> None:
    train = np.eye(10, dtype=np.int64)
    with pytest.raises(PartitionError, match=r"201 different test samples .* has 200 .*lower evaluation\.test_samples"):
        make_test_shards(TEST, train, test_samples=201, streams=Streams(0))


def test_no_test_samples_are_refused() -> None:
    with pytest.raises(PartitionError, match=r"evaluation\.test_samples is 0"):
        make_test_shards(TEST, np.eye(10, dtype=np.int64), test_samples=0, streams=Streams(0))
