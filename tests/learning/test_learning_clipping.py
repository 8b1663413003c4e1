"""Clipped updates: each scaled down to its group's norm, whichever engine computes them and however it takes norms."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cohort_examples import images, updates
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hpfl.learning import LocalTraining
from hpfl.learning.chain import ghost
from hpfl.learning.chain.chain_engine import ChainEngine
from hpfl.learning.coding import Coding
from hpfl.learning.methods.fedper import FedPer
from hpfl.learning.methods.method_options import HeadOptions
from hpfl.learning.recorded import RecordedCohort

CLIP = np.array([0.05, 0.4, 50.0])
TRAININGS = {
    "exact": LocalTraining(inner_lr=0.3, outer_lr=0.2),
    "exact, batches": LocalTraining(inner_lr=0.3, outer_lr=0.2, batch_size=3, batches="independent"),
    "two steps": LocalTraining(inner_lr=0.3, outer_lr=0.2, inner_steps=2, local_steps=2, batch_size=3),
    "first-order": LocalTraining(inner_lr=0.3, outer_lr=0.2, objective="first-order"),
    "hessian-free": LocalTraining(inner_lr=0.3, outer_lr=0.2, objective="hessian-free"),
    "plain": LocalTraining(inner_lr=0.0, outer_lr=0.2),
}
SHAPES = {"mlp": (1, 6, 6), "lenet5": (1, 28, 28)}


def no_bias(input_shape, num_outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 9, bias=False), nn.ReLU(), nn.Linear(9, num_outputs, bias=False))


def explicit(example, training, clip=CLIP, **options):
    """Sums and norms by a row for each UE."""
    cohort = example.cohort(training)
    plain = updates(cohort, options.pop("start", example.start), keep_per_ue=True, **options)
    norms = plain.per_ue.norm(dim=1)
    groups = np.arange(cohort.num_ues) % 3
    factors = torch.from_numpy(clip[groups]).div(norms).clamp_max(1.0)
    return torch.stack([(plain.per_ue * factors[:, None])[groups == g].mean(0) for g in range(3)]), norms.numpy()


@pytest.mark.parametrize("way", TRAININGS)
@pytest.mark.parametrize("model", ["mlp", no_bias, "lenet5"], ids=["mlp", "no bias", "lenet5"])
@pytest.mark.parametrize("always", [True, False], ids=["by products", "formed"])
def test_clipped_sums_and_norms_are_those_of_explicit_rows(way, model, always, monkeypatch):
    training, example = TRAININGS[way], images(SHAPES.get(model, (1, 6, 6)), model)
    expected, norms = explicit(example, training)
    monkeypatch.setattr(ghost, "_cheaper", lambda layer, terms: always)
    cohort = example.cohort(training, chunk=3)
    assert isinstance(cohort.engine, ChainEngine)
    found = updates(cohort, example.start, coding=Coding(clip=CLIP))
    np.testing.assert_allclose(found.norms, norms, rtol=1e-9)
    torch.testing.assert_close(found.update, expected, rtol=1e-9, atol=1e-12)
    assert (norms > CLIP[np.arange(7) % 3]).any()
    assert (norms < CLIP[np.arange(7) % 3]).any()


@pytest.mark.parametrize("layerwise", [True, False])
def test_groups_that_start_apart_and_kept_rows_are_clipped_alike(layerwise):
    example, training = images((1, 6, 6), "mlp"), TRAININGS["exact"]
    starts = torch.stack([example.start, 1.1 * example.start, 0.9 * example.start])
    expected, norms = explicit(example, training, start=starts)
    cohort = example.cohort(training, layerwise=layerwise)
    for keep in (False, True):
        found = updates(cohort, starts, coding=Coding(clip=CLIP), keep_per_ue=keep)
        torch.testing.assert_close(found.update, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.norms, norms, rtol=1e-9)
    assert np.all(found.per_ue.norm(dim=1).numpy() <= CLIP[np.arange(7) % 3] * (1 + 1e-12))


def test_what_stays_at_a_ue_is_not_in_its_norm():
    example = images((1, 6, 6), "mlp")
    cohort = example.cohort(TRAININGS["plain"], method=FedPer(options=HeadOptions()))
    sent = updates(cohort, example.start, keep_per_ue=True)
    found = updates(cohort, example.start, coding=Coding(clip=CLIP), keep_per_ue=True)
    np.testing.assert_allclose(found.norms, sent.per_ue.norm(dim=1), rtol=1e-12)
    assert torch.equal(found.per_ue == 0, sent.per_ue == 0)


@settings(max_examples=6, deadline=None)
@given(st.floats(1e-4, 1e3), st.integers(1, 7))
def test_a_larger_clip_norm_never_shortens_and_chunks_change_nothing(norm, chunk):
    example, training = images((1, 6, 6), "mlp"), TRAININGS["first-order"]
    one, two = (
        updates(example.cohort(training, chunk=size), example.start, coding=Coding(clip=np.full(3, clip)))
        for size, clip in ((chunk, norm), (7, 2 * norm))
    )
    assert np.allclose(one.norms, two.norms, rtol=1e-10)
    assert np.all(one.importance <= norm**2 * (1 + 1e-9))
    unclipped = updates(example.cohort(training), example.start).update
    large = updates(example.cohort(training), example.start, coding=Coding(clip=np.full(3, 1e9))).update
    torch.testing.assert_close(large, unclipped, rtol=1e-12, atol=1e-14)


def test_an_update_of_nothing_stays_nothing():
    example = images((1, 6, 6), "mlp")
    flat = replace(example, inputs=torch.zeros_like(example.inputs))
    start = torch.zeros_like(example.start)
    found = updates(flat.cohort(TRAININGS["plain"]), start, coding=Coding(clip=np.full(3, 1e-3)))
    assert torch.isfinite(found.update).all()
    silent = updates(
        flat.cohort(LocalTraining(inner_lr=0.0, outer_lr=0.2), method=_Still()), start, coding=Coding(clip=CLIP)
    )
    assert not silent.update.any()
    assert not silent.norms.any()


class _Still(FedPer):
    """A UE that learns nothing."""

    def __init__(self):
        super().__init__(options=HeadOptions())

    def local(self, steps, params, kept, training):
        made = super().local(steps, params, kept, training)
        return replace(made, direction=torch.zeros_like(made.direction))


def test_a_recorded_cohort_computes_what_is_clipped_itself():
    example = images((1, 6, 6), "mlp")
    cohort = example.cohort(TRAININGS["exact"])
    own = updates(cohort, example.start, coding=Coding(clip=CLIP))
    found = updates(RecordedCohort(cohort), example.start, coding=Coding(clip=CLIP))
    assert torch.equal(found.update, own.update)
    assert np.array_equal(found.norms, own.norms)
