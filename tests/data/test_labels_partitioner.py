import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.arrays import IntArray
from hpfl.data.labels import deal_labels, partition_labels
from hpfl.data.partition import PartitionError, PartitionSettings, make_shards
from hpfl.rng import Streams

MNIST_CLASS_SIZES = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
PRESETS = {  # samples of each label, smallest and largest shard
    "paper-mnist": (MNIST_CLASS_SIZES, 50, 350),
    "paper-cifar10": ((5000,) * 10, 50, 350),
    "quickstart-paper": ((1200,) * 10, 20, 60),
}


def uniform_sizes(smallest: int, largest: int, num_ues: int, seed: int) -> IntArray:
    return smallest + Streams(seed).at("samples").integers(largest - smallest + 1, num_ues)


def deal_counts(sizes: IntArray, labels_per_ue: int, seed: int) -> IntArray:
    """Samples wanted of each label when every size is split evenly, rounded up."""
    labels = deal_labels(sizes, 10, labels_per_ue=labels_per_ue, streams=Streams(seed))
    upper = np.repeat(-(-sizes // labels_per_ue), labels_per_ue)
    return np.bincount(labels.ravel(), weights=upper, minlength=10).astype(np.int64)


@pytest.mark.parametrize("labels_per_ue", [1, 2, 3, 5, 7, 9, 10])
@pytest.mark.parametrize("preset", PRESETS)
def test_disjoint_shards_fit_every_preset_whatever_the_seed(preset: str, labels_per_ue: int) -> None:
    available, smallest, largest = PRESETS[preset]
    for seed in range(250):
        wanted = deal_counts(uniform_sizes(smallest, largest, 200, seed), labels_per_ue, seed)
        assert (wanted <= available).all(), (seed, wanted)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32), num_ues=st.integers(10, 400), labels=st.integers(1, 10), largest=st.integers(10, 400)
)
def test_labels_want_nearly_equal_numbers_of_samples(seed: int, num_ues: int, labels: int, largest: int) -> None:
    sizes = uniform_sizes(10, largest, num_ues, seed)
    dealt = deal_labels(sizes, 10, labels_per_ue=labels, streams=Streams(seed))
    wanted = np.bincount(dealt.ravel(), weights=np.repeat(sizes / labels, labels), minlength=10)
    last_table = np.sort(sizes)[: num_ues % 10].sum()
    assert np.ptp(wanted) <= np.ptp(sizes) + last_table + 1e-6


def test_a_label_is_dealt_to_equally_many_ues() -> None:
    labels = deal_labels(uniform_sizes(50, 350, 200, 0), 10, labels_per_ue=3, streams=Streams(0))
    assert (np.bincount(labels.ravel()) == 60).all()


def test_all_pairs_of_labels_occur() -> None:
    labels = np.sort(deal_labels(np.full(2000, 20), 10, labels_per_ue=2, streams=Streams(0)), axis=1)
    assert len(np.unique(labels, axis=0)) == 45


@pytest.mark.parametrize("disjoint", [True, False])
@pytest.mark.parametrize("labels_per_ue", [1, 2, 7, 10])
def test_every_ue_has_exactly_its_labels_in_nearly_equal_parts(labels_per_ue: int, disjoint: bool) -> None:
    targets = np.repeat(np.arange(10), 1200)
    sizes = uniform_sizes(20, 60, 200, 5)
    chosen = PartitionSettings(labels_per_ue=labels_per_ue, disjoint=disjoint)
    shards = make_shards("labels", targets, num_classes=10, sizes=sizes, settings=chosen, streams=Streams(5))
    counts = shards.label_counts(targets, 10)
    assert (np.count_nonzero(counts, axis=1) == labels_per_ue).all()
    largest, smallest = counts.max(axis=1), np.where(counts > 0, counts, 10**6).min(axis=1)
    assert (largest - smallest <= 1).all()


def test_an_overdrawn_label_is_made_up_from_a_ues_other_labels() -> None:
    targets = np.repeat(np.arange(4), [20, 150, 150, 150])  # an even deal wants 100 of each, for 20 UEs
    sizes = np.full(40, 10)
    chosen = PartitionSettings(labels_per_ue=2)
    shards = partition_labels(targets, 4, sizes, settings=chosen, streams=Streams(0))
    counts = shards.label_counts(targets, 4)
    assert (counts.sum(axis=1) == 10).all()
    assert (np.count_nonzero(counts, axis=1) == 2).all()
    assert counts[:, 0].max() == 1


def test_a_demand_no_deal_can_fill_is_refused_with_its_numbers() -> None:
    targets = np.repeat(np.arange(4), [10, 120, 120, 150])
    chosen = PartitionSettings(labels_per_ue=1)
    with pytest.raises(PartitionError, match=r"label 0: 100 wanted, 10 available.*data\.disjoint = false"):
        partition_labels(targets, 4, np.full(40, 10), settings=chosen, streams=Streams(0))


def test_a_ue_cannot_have_more_different_samples_than_a_label_has() -> None:
    targets = np.repeat(np.arange(2), 30)
    chosen = PartitionSettings(labels_per_ue=1, disjoint=False)
    with pytest.raises(PartitionError, match=r"wants 31 different training samples of label \d, the data has 30"):
        partition_labels(targets, 2, np.full(3, 31), settings=chosen, streams=Streams(0))


def test_overlapping_ranges_wrap_round_and_use_every_sample() -> None:
    targets = np.repeat(np.arange(2), 30)
    chosen = PartitionSettings(labels_per_ue=1, disjoint=False)
    shards = partition_labels(targets, 2, np.full(60, 20), settings=chosen, streams=Streams(0))
    assert len(shards.start) > shards.num_ues
    assert len(np.unique(shards.rows()[0])) == 60


@pytest.mark.parametrize("labels_per_ue", [0, 11])
def test_more_labels_than_classes_or_none_are_refused(labels_per_ue: int) -> None:
    with pytest.raises(PartitionError, match=rf"data\.labels_per_ue is {labels_per_ue}; .* 1 and the data's 10"):
        partition_labels(
            np.arange(10),
            10,
            np.array([10]),
            settings=PartitionSettings(labels_per_ue=labels_per_ue),
            streams=Streams(0),
        )


def test_a_shard_too_small_for_its_labels_is_refused() -> None:
    with pytest.raises(PartitionError, match=r"UE 1 has 2 samples, too few for data\.labels_per_ue = 3"):
        partition_labels(
            np.arange(10), 10, np.array([3, 2]), settings=PartitionSettings(labels_per_ue=3), streams=Streams(0)
        )
