import numpy as np
import pytest

from hpfl.arrays import IntArray
from hpfl.data.partition import PartitionError, PartitionSettings, make_shards
from hpfl.data.skew import arrange_by_skew, likeness_key
from hpfl.rng import Streams

TARGETS = np.repeat(np.arange(10), 1200)


def test_a_partitioner_that_answers_with_something_else_is_refused() -> None:
    settings = PartitionSettings(labels_per_ue=2, concentration=0.5, disjoint=True, edge_skew=0.0)
    with pytest.raises(PartitionError, match="answers with list; wanted Shards"):
        make_shards(
            lambda *given, **more: [1, 2],
            TARGETS,
            num_classes=10,
            sizes=np.full(4, 10),
            settings=settings,
            streams=Streams(0),
        )


def divergence(counts: IntArray, edges: int) -> float:
    """Mean total-variation distance between an edge's label proportions and everybody's, from 0 to 1."""
    by_edge = counts.reshape(edges, -1, counts.shape[1]).sum(axis=1)
    share = by_edge / by_edge.sum(axis=1, keepdims=True)
    overall = counts.sum(axis=0) / counts.sum()
    return float(np.abs(share - overall).sum(axis=1).mean() / 2)


def mean_divergence(partitioner: str, edge_skew: float, edges: int = 20) -> float:
    values = []
    for seed in range(5):
        chosen = PartitionSettings(edge_skew=edge_skew, concentration=0.2)
        sizes = 20 + Streams(seed).at("samples").integers(41, 200)
        shards = make_shards(partitioner, TARGETS, num_classes=10, sizes=sizes, settings=chosen, streams=Streams(seed))
        values.append(divergence(shards.label_counts(TARGETS, 10), edges))
    return float(np.mean(values))


gathering = pytest.mark.parametrize("partitioner", ["labels", "dirichlet"])


@gathering
def test_edges_differ_the_more_the_larger_the_skew(partitioner: str) -> None:
    measured = [mean_divergence(partitioner, skew) for skew in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert measured == sorted(set(measured))


@gathering
def test_full_skew_goes_at_least_half_way_to_edges_as_different_as_ues(partitioner: str) -> None:
    blind, gathered = mean_divergence(partitioner, 0.0), mean_divergence(partitioner, 1.0)
    most = mean_divergence(partitioner, 0.0, edges=200)  # an edge mixes its UEs, so it differs less than they do
    assert blind + (most - blind) / 2 < gathered < most


def test_one_label_each_and_full_skew_give_every_edge_one_label() -> None:
    chosen = PartitionSettings(labels_per_ue=1, edge_skew=1.0)
    shards = make_shards("labels", TARGETS, num_classes=10, sizes=np.full(200, 40), settings=chosen, streams=Streams(0))
    by_edge = shards.label_counts(TARGETS, 10).reshape(20, 10, 10).sum(axis=1)
    assert (np.count_nonzero(by_edge, axis=1) == 1).all()


def test_no_skew_is_as_mixed_as_a_blind_deal() -> None:
    blind = []
    sorted_counts = np.repeat(np.eye(10, dtype=np.int64), 20, axis=0)
    for seed in range(40):
        blind.append(divergence(sorted_counts[Streams(seed).at("blind").permutation(200)], edges=20))
    dealt = [
        divergence(sorted_counts[arrange_by_skew(sorted_counts, 0.0, streams=Streams(seed))], edges=20)
        for seed in range(40)
    ]
    assert abs(np.mean(dealt) - np.mean(blind)) < 4 * np.std(blind) / np.sqrt(40)


@pytest.mark.parametrize("edge_skew", [0.0, 0.3, 1.0])
def test_every_shard_goes_to_one_ue(edge_skew: float) -> None:
    counts = Streams(0).at("counts").integers(5, 700).reshape(100, 7) + 1
    assert sorted(arrange_by_skew(counts, edge_skew, streams=Streams(0))) == list(range(100))


def test_the_skew_is_the_share_of_shards_that_stay_in_their_place() -> None:
    counts = Streams(0).at("counts").integers(50, 20_000).reshape(2000, 10) + 1
    gathered = arrange_by_skew(counts, 1.0, streams=Streams(0))
    partly = arrange_by_skew(counts, 0.3, streams=Streams(0))
    assert np.mean(gathered == partly) == pytest.approx(0.3, abs=0.05)


def test_one_sample_more_of_a_label_does_not_change_the_likeness() -> None:
    even = np.array([[18, 17, 0], [17, 18, 0], [0, 17, 18]])
    first, second, third = likeness_key(even)
    assert first == second != third


def test_many_classes_do_not_overflow_the_likeness() -> None:
    counts = np.ones((3, 200), dtype=np.int64)
    assert (likeness_key(counts) >= 0).all()


@pytest.mark.parametrize("edge_skew", [-0.1, 1.1, np.nan])
def test_a_skew_outside_zero_to_one_is_refused(edge_skew: float) -> None:
    with pytest.raises(PartitionError, match=r"data\.edge_skew is .*between 0 and 1"):
        arrange_by_skew(np.ones((2, 2), dtype=np.int64), edge_skew, streams=Streams(0))
