"""The law of every partitioner, shipped or added: sizes honoured, nothing shared unless allowed, a seed repeats."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.arrays import IntArray
from hpfl.data.partition import PARTITIONERS, PartitionError, PartitionSettings, Shards, make_shards
from hpfl.rng import Streams

NUM_CLASSES = 5
TARGETS = np.repeat(np.arange(NUM_CLASSES), [90, 110, 100, 120, 80])[Streams(0).at("mix").permutation(500)]

partitioners = pytest.mark.parametrize("name", PARTITIONERS.names())


def sizes_of(seed: int, num_ues: int, largest: int) -> IntArray:
    return 3 + Streams(seed).at("sizes").integers(largest - 2, num_ues)


def partition(name: str, sizes: IntArray, seed: int, **changes: object) -> Shards:
    chosen = PartitionSettings(**changes)  # type: ignore[arg-type]
    return PARTITIONERS.get(name)(TARGETS, NUM_CLASSES, sizes, settings=chosen, streams=Streams(seed))


@partitioners
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), num_ues=st.integers(1, 24), labels=st.integers(1, 3), disjoint=st.booleans())
def test_every_ue_gets_exactly_its_size_in_distinct_samples(
    name: str, seed: int, num_ues: int, labels: int, disjoint: bool
) -> None:
    sizes = sizes_of(seed, num_ues, largest=20)
    shards = partition(name, sizes, seed, labels_per_ue=labels, disjoint=disjoint)
    rows, offsets = shards.source_rows()
    np.testing.assert_array_equal(shards.sizes, sizes)
    np.testing.assert_array_equal(np.diff(offsets), sizes)
    assert all(len(np.unique(rows[a:b])) == b - a for a, b in pairwise(offsets))


@partitioners
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), num_ues=st.integers(1, 24), concentration=st.floats(0.01, 100.0))
def test_disjoint_shards_share_no_sample_and_lie_in_ue_order(
    name: str, seed: int, num_ues: int, concentration: float
) -> None:
    shards = partition(name, sizes_of(seed, num_ues, largest=20), seed, concentration=concentration)
    rows, _ = shards.source_rows()
    assert len(np.unique(rows)) == len(rows)
    np.testing.assert_array_equal(np.sort(shards.order), np.arange(len(TARGETS)))
    np.testing.assert_array_equal(shards.rows()[0], np.arange(shards.sizes.sum()))


@partitioners
@pytest.mark.parametrize("disjoint", [True, False])
def test_the_same_seed_gives_the_same_shards_and_another_seed_others(name: str, disjoint: bool) -> None:
    sizes = sizes_of(1, 15, largest=20)
    first, again, other = (partition(name, sizes, seed, disjoint=disjoint).source_rows()[0] for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@partitioners
def test_more_samples_than_there_are_is_refused_with_both_numbers(name: str) -> None:
    with pytest.raises(PartitionError, match=r"want 600 samples, the data has 500.*data\.disjoint = false"):
        partition(name, np.full(10, 60), 0)


@partitioners
def test_the_same_demand_fits_when_shards_may_overlap(name: str) -> None:
    assert partition(name, np.full(10, 60), 0, disjoint=False, concentration=10.0).sizes.sum() == 600


@partitioners
@pytest.mark.parametrize("disjoint", [True, False])
def test_gathering_under_edges_moves_shards_whole(name: str, disjoint: bool) -> None:
    sizes, streams = sizes_of(3, 20, largest=20), Streams(3)
    chosen = PartitionSettings(edge_skew=0.5, disjoint=disjoint)
    shards = make_shards(name, TARGETS, num_classes=NUM_CLASSES, sizes=sizes, settings=chosen, streams=streams)
    assert sorted(map(tuple, ues_of(shards))) == sorted(
        map(tuple, ues_of(partition(name, sizes, 3, disjoint=disjoint)))
    )
    if disjoint:
        np.testing.assert_array_equal(shards.rows()[0], np.arange(sizes.sum()))


def ues_of(shards: Shards) -> list[list[int]]:
    rows, offsets = shards.source_rows()
    return [sorted(part.tolist()) for part in np.split(rows, offsets[1:-1])]
