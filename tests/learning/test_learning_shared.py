"""Samples that many UEs share: what is looked up in a table is what would be computed, whoever holds which UEs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import Segments
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from hpfl.clusters.sharing import stretches
from hpfl.learning import Cohort, LocalTraining, TestData, make_task
from hpfl.learning.coding import Coding
from hpfl.learning.cohort_round import Request
from hpfl.learning.deferred import Deferred, DeferredPart, _add_in_pieces, _by_group
from hpfl.learning.part import part_data, tried_ues
from hpfl.learning.shared import ProductTable, SharedRows, much_shared
from hpfl.rng import Streams

ROWS, UES = 40, 400
TIGHT = 0.0006  # GB: too little for everybody's samples, enough for a table
SIZES = np.random.default_rng(0).integers(4, 14, UES)
SHARDS = Segments(np.arange(UES + 1), np.random.default_rng(1).integers(0, ROWS - SIZES), SIZES)
DRAWS = torch.Generator().manual_seed(2)
INPUTS = torch.randn(ROWS, 5, generator=DRAWS, dtype=torch.float64)
TARGETS = torch.randint(0, 3, (ROWS,), generator=DRAWS)
DEEP = make_task(lambda: nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)))
PLAIN = make_task(lambda: nn.Sequential(nn.Linear(5, 3, bias=False)))


def cohort(memory_gb: float, training: LocalTraining, task: Any = DEEP, **options: Any) -> Cohort:
    given = {"inputs": INPUTS, "targets": TARGETS, "shards": SHARDS, "dtype": torch.float64, "block_ues": 64} | options
    return Cohort(task, training, memory_gb=memory_gb, **given)


def table_of(rows: torch.Tensor, *, bias: bool) -> ProductTable:
    nobody = np.zeros(0, dtype=np.int64)
    return ProductTable.of(rows, nobody, nobody.astype(np.int32), bias=bias)


def start(task: Any = DEEP) -> torch.Tensor:
    return task.initial_parameters(Streams(7).at("init")).double()


def asked(ues: np.ndarray, **options: Any) -> dict[str, Any]:
    return {"ues": ues, "groups": ues // 57, "num_groups": 8, "streams": Streams(3), "key": 1, **options}


@pytest.mark.parametrize("task", [DEEP, PLAIN])
@pytest.mark.parametrize("objective", ["exact", "hessian-free", "first-order"])
@pytest.mark.parametrize("steps", [1, 2])
def test_updates_and_figures_by_a_table_are_those_without(task: Any, objective: str, steps: int) -> None:
    training = LocalTraining(inner_lr=0.3, outer_lr=0.1, objective=objective, local_steps=steps, inner_steps=steps)
    table, store = cohort(TIGHT, training, task), cohort(4.0, training, task)
    assert table.data.samples.table is not None
    assert store.data.samples.table is None
    ues = np.random.default_rng(5).permutation(UES)[:300]
    weights = SIZES[ues].astype(float)
    for model in (start(task), start(task) * 0.5, torch.stack([start(task) * scale for scale in np.arange(1, 9) / 4])):
        one, two = (own.updates(model, **asked(ues, weights=weights)) for own in (table, store))
        torch.testing.assert_close(one.update, two.update, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(one.meta_loss, two.meta_loss, rtol=1e-9)
    test = TestData(INPUTS, TARGETS, SHARDS)
    figures = (own.evaluate(start(task), test, inner_lr=0.2) for own in (table, store))
    for one, two in zip(*(list(found.values()) for found in figures), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9)


@pytest.mark.parametrize("how", [{"keep_per_ue": True}, {"coding": Coding(clip=np.full(8, 0.3))}])
def test_rows_of_ues_and_clipped_updates_by_a_table_are_those_without(how: dict[str, Any]) -> None:
    training, ues = LocalTraining(inner_lr=0.3, outer_lr=0.1), np.arange(UES)
    one, two = (cohort(gb, training).updates(start(), **asked(ues, **how)) for gb in (0.0006, 4.0))
    torch.testing.assert_close(one.update, two.update, rtol=1e-9, atol=1e-12)
    if one.per_ue is not None:
        torch.testing.assert_close(one.per_ue, two.per_ue, rtol=1e-9, atol=1e-12)
    if one.norms is not None:
        np.testing.assert_allclose(one.norms, two.norms, rtol=1e-9)


@pytest.mark.parametrize("task", [DEEP, PLAIN])
def test_ues_that_share_samples_give_the_bits_of_the_whole_on_any_number_of_workers(task: Any) -> None:
    training, model = LocalTraining(inner_lr=0.3, outer_lr=0.1), start(task).float()
    options: dict[str, Any] = {"dtype": torch.float32, "inputs": INPUTS.float(), "block_ues": 16}
    whole, ues = cohort(0.6 * TIGHT, training, task, **options), np.random.default_rng(2).permutation(UES)[:300]
    assert whole.data.samples.table is not None
    kind: dict[str, Any] = {"num_groups": 8, "streams": Streams(3), "key": 1}
    request = Request.of(model, ues, ues // 57, weights=None, **kind)
    expected = whole.updates(model, ues=ues, groups=ues // 57, **kind)
    for workers in (1, 2, 4, 8):
        total, losses = torch.zeros_like(expected.update), torch.zeros(2, len(ues))
        for stretch in stretches(SIZES, 16, workers):
            held = np.union1d(np.arange(stretch.first, stretch.end), tried_ues(SIZES, None))
            part = part_data(INPUTS.float(), TARGETS, SHARDS, held)
            own = cohort(0.6 * TIGHT, training, task, **options | vars(part))
            assert own.data.samples.table is not None
            at = stretch.places(ues)
            mine = replace(request, ues=ues[at], groups=request.groups[at], shares=request.shares[at])
            sums, answer = own.part_updates(mine, None, keep_per_ue=False, all_asked=len(ues))
            for row, rows in sums:
                total[row : row + len(rows)] += rows
            losses[:, at] = answer.losses
        assert torch.equal(expected.update, total)
        meta = np.bincount(request.groups, weights=losses[1].double().numpy() * request.shares, minlength=8)
        np.testing.assert_array_equal(meta, expected.meta_loss)


def test_a_table_in_float32_is_as_near_as_that_allows() -> None:
    training, options = LocalTraining(inner_lr=0.3, outer_lr=0.1), {"dtype": torch.float32, "inputs": INPUTS.float()}
    table, store = cohort(0.6 * TIGHT, training, **options), cohort(4.0, training, **options)
    assert table.data.samples.table is not None
    one, two = (own.updates(start().float(), **asked(np.arange(UES))).update for own in (table, store))
    assert torch.linalg.vector_norm(one - two) <= 1e-6 * torch.linalg.vector_norm(two)


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 5))
def test_sums_that_waited_are_those_of_every_sample_that_counts(seed: int, chunks: int, ues: int) -> None:
    """In both ways: a product for each group, and pieces of all groups at once."""
    draws = np.random.default_rng(seed)
    table = table_of(torch.from_numpy(draws.standard_normal((9, 4))), bias=True)
    expected, total, parts, deferred = torch.zeros(3, 8), torch.zeros(3, 10).double(), [], Deferred()
    expected = expected.double()
    for _ in range(chunks):
        width = int(draws.integers(1, 6))
        counts, index = draws.integers(1, width + 1, ues), draws.integers(0, 9, (ues, width))
        errors = draws.standard_normal((ues, width, 2))
        groups = np.sort(draws.integers(0, 3, ues))
        for ue in range(ues):
            rows = table.rows[index[ue, : counts[ue]]]
            expected[groups[ue]] += (torch.from_numpy(errors[ue, : counts[ue]]).T @ rows).flatten()
        runs = tuple((int(g), int((groups < g).sum()), int((groups <= g).sum())) for g in np.unique(groups))
        rows = SharedRows(table, torch.from_numpy(index), counts)
        parts.append(DeferredPart(rows, torch.from_numpy(errors), runs))
        deferred.add(slice(1, 9), parts[-1])
    index = torch.cat([part.rows.index.reshape(-1) for part in parts])
    errors, pieces = torch.cat([part.errors.flatten(0, 1) for part in parts]), torch.zeros(3, 2, 4).double()
    _add_in_pieces(table.rows, index, errors, pieces, _by_group(parts))
    deferred.finish(total)
    torch.testing.assert_close(total[:, 1:9], expected)
    torch.testing.assert_close(pieces.flatten(1), expected)
    assert not total[:, [0, 9]].any()


def test_a_table_forgets_the_outputs_of_other_weights() -> None:
    rows, weight = torch.randn(6, 4), torch.randn(3, 4)
    table = table_of(rows, bias=False)
    first = table.outputs(weight, None)
    assert table.outputs(weight, None) is first
    weight.mul_(2)
    torch.testing.assert_close(table.outputs(weight, None), first * 2)
    bias = torch.ones(3)
    torch.testing.assert_close(table.outputs(weight, bias), first * 2 + 1)
    torch.testing.assert_close(table.outputs(weight.clone(), None), first * 2)


def test_a_table_pays_where_ues_have_many_times_the_rows_there_are() -> None:
    assert much_shared(np.full(10, 8), 10)
    assert not much_shared(np.full(10, 7), 10)
