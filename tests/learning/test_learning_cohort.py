"""Cohorts: the same result whatever the chunk, the company or the padding."""

from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import EXAMPLES, SIZES, Segments, images, plain_gradient, tokens, updates
from hypothesis import given, settings
from hypothesis import strategies as st

from hpfl.learning import Cohort, LocalTraining, NonFiniteUpdateError, TestData
from hpfl.learning.batches import ShardRows, buckets, drawn_index, member_draws
from hpfl.learning.memory import peak_bytes
from hpfl.rng import Streams


def training(**options: Any) -> LocalTraining:
    return LocalTraining(**{"inner_lr": 0.3, "outer_lr": 0.1, **options})


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("name", ["mlp", "lenet5", "layer norm", "tied tokens"])
def test_the_chunk_changes_rounding_only(name: str, batch_size: int | None) -> None:
    example = EXAMPLES[name]()
    whole = updates(example.cohort(training(batch_size=batch_size)), example.start, keep_per_ue=True)
    for chunk in (1, 7, 100):
        part = updates(example.cohort(training(batch_size=batch_size), chunk=chunk), example.start, keep_per_ue=True)
        torch.testing.assert_close(part.update, whole.update, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(part.per_ue, whole.per_ue, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(part.meta_loss, whole.meta_loss, rtol=1e-12)


def test_the_same_call_gives_the_same_bits() -> None:
    example = EXAMPLES["mlp"]()
    one, two = (updates(example.cohort(training(batch_size=2)), example.start).update for _ in range(2))
    assert torch.equal(one, two)


def test_a_small_memory_budget_makes_small_chunks_and_the_same_update() -> None:
    example = images((1, 8, 8), "mlp", hidden=(40,))
    cohort = example.cohort(training(), memory_gb=1.8e-4)
    result = updates(cohort, example.start)
    assert max(cohort.data.room.needs.values()) > cohort.data.room.free / 2  # so that no two of the largest fit
    torch.testing.assert_close(result.update, updates(example.cohort(training()), example.start).update)


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("memory_gb", [2e-4, 3e-4, 4e-4, 6e-4, 1e-3])
def test_chunks_do_not_depend_on_what_was_computed_before(memory_gb: float, batch_size: int | None) -> None:
    example = images((1, 8, 8), "mlp", hidden=(40,))
    test = TestData(example.inputs, example.targets, Segments(np.arange(8), np.arange(7), SIZES))
    options = {"memory_gb": memory_gb, "test": test, "dtype": torch.float32}
    fresh, used = (example.cohort(training(batch_size=batch_size), **options) for _ in range(2))
    start, few = example.start.float(), np.array([2, 4])
    updates(used, start, ues=few, groups=np.zeros(2, dtype=np.int64), num_groups=1)
    used.evaluate(start, test, inner_lr=0.1)
    assert torch.equal(updates(used, start).update, updates(fresh, start).update)
    figures, expected = (cohort.evaluate(start, test, inner_lr=0.1) for cohort in (used, fresh))
    np.testing.assert_array_equal(figures.meta_loss, expected.meta_loss)
    assert used.data.room.free == fresh.data.room.free


@pytest.mark.parametrize("name", ["mlp", "lenet5", "layer norm"])
def test_a_chunk_takes_no_more_memory_than_the_budget(name: str) -> None:
    example = EXAMPLES[name]()
    budget = 5e-3 if name == "lenet5" else 3e-4
    cohort = example.cohort(training(), memory_gb=budget)
    updates(cohort, example.start)
    assert peak_bytes(lambda: updates(cohort, example.start)) <= budget * 1e9


def test_a_ue_draws_the_same_batch_whoever_else_takes_part() -> None:
    example = EXAMPLES["mlp"]()
    cohort = example.cohort(training(batch_size=3, batches="independent"))
    together = updates(cohort, example.start, keep_per_ue=True).per_ue[4]
    alone = updates(cohort, example.start, ues=np.array([4]), groups=np.array([0]), num_groups=1).update[0]
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-15)
    later = updates(cohort, example.start, keep_per_ue=True, key=3).per_ue[4]
    assert not torch.allclose(together, later)


def test_a_group_update_is_the_weighted_mean_of_its_ues() -> None:
    example = EXAMPLES["mlp"]()
    result = updates(
        example.cohort(training()), example.start, weights=SIZES.astype(float), keep_per_ue=True, num_groups=4
    )
    for group in range(3):
        own = np.arange(len(SIZES)) % 3 == group
        shares = torch.from_numpy(SIZES * own / SIZES[own].sum())
        torch.testing.assert_close(result.update[group], shares @ result.per_ue, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(result.importance, result.update.square().sum(1).numpy(), rtol=1e-12)
    assert result.importance[3] == 0
    assert np.isnan(result.loss[3])


@pytest.mark.parametrize("name", ["mlp", "lenet5", "layer norm"])
def test_groups_may_start_from_different_models(name: str) -> None:
    example = EXAMPLES[name]()
    starts = torch.stack([example.start, example.start * 0.5, example.start * 1.5])
    cohort = example.cohort(training(inner_steps=2))
    together = updates(cohort, starts).update
    for group in range(3):
        alone = updates(cohort, starts[group]).update[group]
        torch.testing.assert_close(together[group], alone, rtol=1e-10, atol=1e-13)


def test_the_order_of_the_request_does_not_matter() -> None:
    example = EXAMPLES["mlp"]()
    cohort = example.cohort(training())
    ues = np.arange(len(SIZES))[::-1].copy()
    turned = updates(cohort, example.start, ues=ues, groups=ues % 3, keep_per_ue=True)
    straight = updates(cohort, example.start, keep_per_ue=True)
    torch.testing.assert_close(turned.update, straight.update, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(turned.per_ue.flip(0), straight.per_ue, rtol=1e-12, atol=1e-15)


def test_overlapping_shards_of_several_segments_are_read_in_order() -> None:
    shards = Segments(np.array([0, 2, 3]), np.array([4, 0, 1]), np.array([2, 1, 5]))
    rows = ShardRows.of(shards)
    assert rows.sizes.tolist() == [3, 5]
    index = np.tile(np.arange(3), (2, 1))
    assert rows.rows(np.array([0, 1]), index).tolist() == [[4, 5, 0], [1, 2, 3]]


def test_bytes_are_numbers_between_0_and_1() -> None:
    example = EXAMPLES["mlp"]()
    pixels = (example.inputs * 255).to(torch.uint8)
    shards = Segments(np.arange(8), np.cumsum(SIZES) - SIZES, SIZES)
    task, start = example.task, example.start
    pair = [
        updates(Cohort(task, training(), inputs=x, targets=example.targets, shards=shards, dtype=torch.float64), start)
        for x in (pixels, pixels.double() / 255)
    ]
    torch.testing.assert_close(pair[0].update, pair[1].update)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.sampled_from([0.08, 0.25]))
@settings(deadline=None, max_examples=60)
def test_padding_stays_below_its_bound_and_nobody_is_lost(sizes: list[int], bound: float) -> None:
    array = np.array(sizes)
    groups = buckets(array, bound)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(sizes)))
    padded = sum(len(own) * array[own].max() for own in groups)
    assert padded <= (1 + bound) * array.sum() + 1e-9


@given(st.integers(1, 12), st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 2**31))
@settings(deadline=None, max_examples=60)
def test_a_batch_has_distinct_samples_of_its_shard(batch: int, sizes: list[int], seed: int) -> None:
    array = np.array(sizes)
    draws = member_draws(Streams(seed).at("batch/support/0"), np.arange(len(sizes)), batch)
    for size, own in zip(sizes, drawn_index(draws, array), strict=True):
        taken = own[: min(size, batch)]
        assert len(set(taken.tolist())) == len(taken)
        assert taken.min() >= 0
        assert taken.max() < size


def test_every_sample_of_a_shard_is_drawn_equally_often() -> None:
    draws = np.random.default_rng(0).random((6000, 2))
    counts = np.bincount(drawn_index(draws, np.full(6000, 5)).ravel(), minlength=5)
    assert np.all(np.abs(counts / 12000 - 0.2) < 0.02)


def test_far_apart_ues_draw_their_own_words() -> None:
    stream = Streams(1).at("batch/support/0", 4)
    few = member_draws(stream, np.array([5000, 3]), 8)
    np.testing.assert_array_equal(few[0], stream.uniform(8, 5000 * 8))
    np.testing.assert_array_equal(few[1], stream.uniform(8, 24))


def test_an_update_that_is_not_finite_is_refused() -> None:
    example = EXAMPLES["mlp"]()
    with pytest.raises(NonFiniteUpdateError, match="lower learning"):
        updates(example.cohort(training()), example.start * float("nan"))


def test_an_empty_shard_cannot_take_part() -> None:
    example = EXAMPLES["mlp"]()
    shards = Segments(np.arange(3), np.array([0, 5]), np.array([5, 0]))
    cohort = Cohort(example.task, training(), inputs=example.inputs, targets=example.targets, shards=shards)
    with pytest.raises(ValueError, match="UE 1 takes part but its shard is empty"):
        cohort.updates(
            example.start, ues=np.array([0, 1]), groups=np.array([0, 0]), num_groups=1, streams=Streams(0), key=0
        )


@pytest.mark.parametrize("layerwise", [True, False])
@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_evaluation_equals_the_loop_one_would_write(name: str, layerwise: bool) -> None:
    example = EXAMPLES[name]()
    cohort = example.cohort(training(batch_size=2), layerwise=layerwise)
    sizes = np.array([3, 0, 8, 4, 6, 2, 5])  # test samples per UE, overlapping
    test = TestData(example.inputs, example.targets, Segments(np.arange(8), np.arange(7), sizes))
    figures = cohort.evaluate(example.start, test, inner_lr=0.4, inner_steps=2)
    for ue, size in enumerate(sizes):
        theta = example.start
        losses = []
        for _ in range(3):
            loss, gradient = plain_gradient(example.task, theta, *example.shard(ue))
            losses.append(float(loss))
            theta = theta - 0.4 * gradient if len(losses) < 3 else theta
        assert figures.loss[ue] == pytest.approx(losses[0])
        assert figures.meta_loss[ue] == pytest.approx(losses[2])
        own = slice(ue, ue + int(size))
        for point, accuracy in ((theta, figures.personalised_accuracy), (example.start, figures.global_accuracy)):
            hits = example.task.outputs(point, example.inputs[own]).argmax(1) == example.targets[own]
            assert accuracy[ue] == pytest.approx(float(hits.double().mean()), nan_ok=True)


def test_token_accuracy_is_the_share_of_right_tokens() -> None:
    example = tokens()
    shards = Segments(np.arange(8), np.cumsum(SIZES) - SIZES, SIZES)
    figures = example.cohort(training()).evaluate(
        example.start, TestData(example.inputs, example.targets, shards), inner_lr=0.1
    )
    hits = example.task.outputs(example.start, example.shard(2)[0]).argmax(-1) == example.shard(2)[1]
    assert figures.global_accuracy[2] == pytest.approx(float(hits.double().mean()))


def test_regression_has_no_accuracy() -> None:
    example = EXAMPLES["regression"]()
    shards = Segments(np.arange(8), np.cumsum(SIZES) - SIZES, SIZES)
    figures = example.cohort(training()).evaluate(
        example.start, TestData(example.inputs, example.targets, shards), inner_lr=0.1
    )
    assert np.isnan(figures.personalised_accuracy).all()
    assert np.isfinite(figures.meta_loss).all()
