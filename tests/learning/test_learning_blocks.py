"""Canonical blocks: who computes them changes no bit."""

from functools import partial

import numpy as np
import pytest
import torch
from cohort_examples import Example, one_segment_each
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hpfl.learning import Cohort, Kept, LocalTraining, make_task
from hpfl.learning.blocks import blocks
from hpfl.learning.cohort_round import Answer, CohortRound, Request
from hpfl.rng import Streams


@given(st.sets(st.integers(0, 500), max_size=60), st.integers(1, 20), st.randoms(use_true_random=False))
def test_blocks_are_a_function_of_who_takes_part(members: set[int], size: int, order: object) -> None:
    ues = np.array(sorted(members), dtype=np.int64)
    shuffled = ues.copy()
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    found = [np.sort(shuffled[block]).tolist() for block in blocks(shuffled, size)]
    assert found == [ues[first : first + size].tolist() for first in range(0, max(len(ues), 1), size)]


def test_blocks_computed_apart_and_added_in_order_give_the_bits_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpfl.learning.cohort_round.blocks", partial(blocks, size=64))
    sizes = np.random.default_rng(0).integers(1, 4, 150)
    draws = torch.Generator().manual_seed(1)
    inputs = torch.randn(int(sizes.sum()), 5, generator=draws)
    targets = torch.randint(0, 3, (len(inputs),), generator=draws)
    example = Example(make_task(lambda: nn.Sequential(nn.Linear(5, 3))), inputs, targets, sizes)
    training = LocalTraining(inner_lr=0.3, outer_lr=0.1, batch_size=2)
    ues = np.random.default_rng(2).permutation(len(sizes))
    options = {"num_groups": 4, "streams": Streams(3), "key": 1}

    def cohort() -> Cohort:
        return Cohort(
            example.task, training, inputs=inputs, targets=targets, shards=one_segment_each(sizes), memory_gb=0.01
        )

    start = example.start.float()
    whole = cohort().updates(start, ues=ues, groups=ues % 4, **options)  # type: ignore[arg-type]
    shares = 1 / np.bincount(ues % 4)[ues % 4]
    total = torch.zeros_like(whole.update)
    for block in blocks(ues, 64):
        own = Request(start, ues[block], ues[block] % 4, shares[block], **options)  # type: ignore[arg-type]
        alone, answer = cohort(), Answer.empty(own, Kept(), keep_per_ue=False)
        limit = alone._limit(("updates", 1, False), alone.batches.layout, alone.update_trial(start, keep_per_ue=False))
        CohortRound(alone.engine, alone.batches, alone.sending, own, Kept(), answer).run(limit)
        total += answer.total
    assert len(blocks(ues, 64)) == 3
    assert torch.equal(whole.update, total)
    again = cohort().updates(start, ues=ues[::-1], groups=ues[::-1] % 4, **options)  # type: ignore[arg-type]
    assert torch.equal(whole.update, again.update)
