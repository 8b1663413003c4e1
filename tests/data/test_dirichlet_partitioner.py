import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.data.dirichlet import draw_proportions, partition_dirichlet
from hpfl.data.label_placement import apportion
from hpfl.data.partition import PartitionError, PartitionSettings, make_shards
from hpfl.rng import Streams


@pytest.mark.parametrize("concentration", [0.1, 1.0, 10.0])
def test_proportions_have_the_mean_and_variance_of_the_dirichlet_distribution(concentration: float) -> None:
    drawn = draw_proportions(20_000, 5, concentration=concentration, streams=Streams(0))
    variance = (1 / 5) * (4 / 5) / (5 * concentration + 1)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.2, atol=5 * np.sqrt(variance / 20_000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.06)


@pytest.mark.parametrize("concentration", [1e-6, 1e-3, 1e6])
def test_extreme_concentrations_give_proper_proportions(concentration: float) -> None:
    drawn = draw_proportions(1000, 5, concentration=concentration, streams=Streams(0))
    assert np.isfinite(drawn).all()
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)


def test_a_small_concentration_gives_a_ue_one_label_and_a_large_one_all() -> None:
    targets = np.repeat(np.arange(10), 1000)
    held = {}
    for concentration in (0.001, 1000.0):
        chosen = PartitionSettings(concentration=concentration, disjoint=False)
        shards = partition_dirichlet(targets, 10, np.full(200, 40), settings=chosen, streams=Streams(0))
        held[concentration] = np.count_nonzero(shards.label_counts(targets, 10), axis=1).mean()
    assert held[0.001] < 1.1
    assert held[1000.0] == 10.0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), concentration=st.floats(0.01, 10.0))
def test_disjoint_shards_can_use_up_the_data_to_the_last_sample(seed: int, concentration: float) -> None:
    targets = np.repeat(np.arange(4), [10, 20, 30, 40])
    chosen = PartitionSettings(concentration=concentration)
    shards = partition_dirichlet(targets, 4, np.full(20, 5), settings=chosen, streams=Streams(seed))
    assert len(np.unique(shards.source_rows()[0])) == 100


@pytest.mark.parametrize("concentration", [0.0, -1.0, np.inf, np.nan])
def test_a_concentration_that_is_not_positive_and_finite_is_refused(concentration: float) -> None:
    with pytest.raises(PartitionError, match=r"data\.concentration"):
        partition_dirichlet(
            np.arange(4), 4, np.array([1]), settings=PartitionSettings(concentration=concentration), streams=Streams(0)
        )


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(0, 500))
def test_apportioning_is_exact_within_one_of_the_quota_and_gives_nothing_to_no_weight(seed: int, size: int) -> None:
    weights = Streams(seed).at("weights").uniform(60).reshape(10, 6)
    weights[:, 2] = 0.0
    counts = apportion(np.full(10, size), weights, Streams(seed).at("ties"))
    assert (counts.sum(axis=1) == size).all()
    assert (counts[:, 2] == 0).all()
    assert (np.abs(counts - size * weights / weights.sum(axis=1, keepdims=True)) < 1 + 1e-9).all()


def test_iid_shards_have_the_labels_of_the_whole() -> None:
    targets = np.repeat(np.arange(4), [1000, 2000, 3000, 4000])
    for disjoint in (True, False):
        chosen = PartitionSettings(disjoint=disjoint)
        shards = make_shards("iid", targets, num_classes=4, sizes=np.full(50, 200), settings=chosen, streams=Streams(1))
        share = shards.label_counts(targets, 4) / 200
        np.testing.assert_allclose(share.mean(axis=0), [0.1, 0.2, 0.3, 0.4], atol=0.02)
        assert np.abs(share - share.mean(axis=0)).max() < 0.16  # over four standard deviations


def test_regression_targets_are_shared_as_one_class() -> None:
    targets = np.linspace(0, 1, 100, dtype=np.float32)
    shards = make_shards(
        "iid", targets, num_classes=None, sizes=np.full(10, 10), settings=PartitionSettings(), streams=Streams(0)
    )
    assert sorted(shards.source_rows()[0].tolist()) == list(range(100))


def test_a_ue_without_samples_is_refused() -> None:
    with pytest.raises(PartitionError, match="at least one sample"):
        make_shards(
            "iid", np.arange(4), num_classes=4, sizes=np.array([1, 0]), settings=PartitionSettings(), streams=Streams(0)
        )
