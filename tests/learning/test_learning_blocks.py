"""Canonical blocks: who computes them changes no bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import Example, Segments, one_segment_each
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hpfl.learning import Cohort, LocalTraining, TestData, make_task
from hpfl.learning.blocks import blocks
from hpfl.learning.cohort_round import Request
from hpfl.learning.part import part_data, tried_ues
from hpfl.rng import Streams


@given(st.sets(st.integers(0, 500), max_size=60), st.integers(1, 20), st.randoms(use_true_random=False))
def test_a_block_is_the_ues_of_a_stretch_of_numbers_whoever_takes_part(
    members: set[int], size: int, order: object
) -> None:
    ues = np.array(sorted(members), dtype=np.int64)
    shuffled = ues.copy()
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    found = [np.sort(shuffled[block]).tolist() for block in blocks(shuffled, size)]
    numbers = sorted({ue // size for ue in members})
    assert found == [[ue for ue in ues.tolist() if ue // size == number] for number in numbers] or not members


def drawn_example(mini_batches: bool) -> tuple[Example, LocalTraining]:
    """150 UEs whose shards overlap, in segments of a hundred samples."""
    draws = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(100, 5, generator=draws), torch.randint(0, 3, (100,), generator=draws)
    sizes = np.random.default_rng(0).integers(1, 14, 150)
    training = LocalTraining(inner_lr=0.3, outer_lr=0.1, batch_size=2 if mini_batches else None)
    return Example(make_task(lambda: nn.Sequential(nn.Linear(5, 3))), inputs, targets, sizes), training


def overlapping(sizes: np.ndarray) -> Segments:
    start = np.random.default_rng(4).integers(0, 100 - sizes)
    return Segments(np.arange(len(sizes) + 1), start, sizes)


@pytest.mark.parametrize("mini_batches", [False, True])
def test_parts_that_hold_their_own_samples_alone_give_the_bits_of_the_whole(mini_batches: bool) -> None:
    example, training = drawn_example(mini_batches)
    shards, start = overlapping(example.sizes), example.start.float()
    test = TestData(example.inputs, example.targets, shards)
    options: dict[str, Any] = {"memory_gb": 0.002, "block_ues": 32, "dtype": torch.float32}
    data = {"inputs": example.inputs, "targets": example.targets}
    whole = Cohort(example.task, training, **data, shards=shards, test=test, **options)
    ues = np.random.default_rng(2).permutation(150)[:120]
    asked: dict[str, Any] = {"num_groups": 4, "streams": Streams(3), "key": 1}
    expected = whole.updates(start, ues=ues, groups=ues % 4, **asked)
    figures = whole.evaluate(start, test, inner_lr=0.2)
    request = Request.of(start, ues, ues % 4, weights=None, **asked)
    total, tried = torch.zeros_like(expected.update), tried_ues(example.sizes, training.batch_size)
    for first, end in ((0, 64), (64, 96), (96, 150)):  # three processes, of two, one and two blocks
        held = np.union1d(np.arange(first, end), tried)
        own, own_test = part_data(**data, shards=shards, held=held), part_data(**data, shards=shards, held=held)
        mine = TestData(own_test.inputs, own_test.targets, own_test.shards)
        cohort = Cohort(example.task, training, **vars(own), test=mine, **options)
        at = np.flatnonzero((ues >= first) & (ues < end))
        part = replace(request, ues=ues[at], groups=request.groups[at], shares=request.shares[at])
        sums, answer = cohort.part_updates(part, None, keep_per_ue=False, all_asked=len(ues))
        for row, rows in sums:
            total[row : row + len(rows)] += rows
        assert len(sums) == len(blocks(ues[at], 32))
        assert not answer.losses.isnan().any()
        found = cohort.figures_at(start, mine, np.arange(first, end), cohort.adapting(0.2, 1), None)
        assert all(np.array_equal(one, two[first:end]) for one, two in zip(found, figures.values(), strict=True))
    assert torch.equal(expected.update, total)
    again = whole.updates(start, ues=ues[::-1], groups=ues[::-1] % 4, **asked)
    assert torch.equal(expected.update, again.update)


def test_a_part_holds_the_samples_of_its_own_ues_and_no_others() -> None:
    sizes = np.array([3, 2, 4, 1])
    data, shards = torch.arange(10.0)[:, None], one_segment_each(sizes)
    part = part_data(data, torch.arange(10), shards, np.array([1, 3]))
    assert part.targets.tolist() == [3, 4, 9]
    assert part.shards.rows(np.array([1, 3]), np.zeros((2, 1), dtype=np.int64))[:, 0].tolist() == [0, 2]
    assert part.shards.sizes.tolist() == sizes.tolist()
