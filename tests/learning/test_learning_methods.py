"""Methods: what UEs keep, what travels and what they are evaluated with, against loops one would write."""

from typing import Any

import numpy as np
import pytest
import torch
from cohort_examples import EXAMPLES, SIZES, Example, Segments, images, plain_gradient, updates
from own_methods import Ditto, FedPer
from torch import Tensor
from uplink_steps import Largest, Rounding

from hpfl.learning import (
    METHODS,
    BaseMethod,
    Cohort,
    Draws,
    Kept,
    LearningError,
    Local,
    LocalTraining,
    Method,
    TestData,
    Uplink,
    descended,
    num_travelling,
)
from hpfl.learning.sending import Sending
from hpfl.learning.uplink import IDENTITY
from hpfl.rng import Streams

NUM_UES = len(SIZES)


def training(**options: Any) -> LocalTraining:
    return LocalTraining(**{"inner_lr": 0.0, "outer_lr": 0.2, "local_steps": 2, **options})


def head_of(example: Example) -> str:
    return example.task.spec.names[-1].rsplit(".", 1)[0]


def rounds(cohort: Cohort, start: Tensor, count: int) -> tuple[Tensor, Kept | None]:
    """The model after some rounds with all UEs in one group, and what they keep."""
    params, kept = start, None
    for number in range(count):
        found = updates(cohort, params, groups=np.zeros(NUM_UES, dtype=np.int64), num_groups=1, key=number, kept=kept)
        params, kept = params - 0.2 * found.update[0], found.kept
    return params, kept


@pytest.mark.parametrize("name", ["mlp", "lenet5", "layer norm"])
def test_private_heads_are_those_of_a_plain_loop(name: str) -> None:
    example = EXAMPLES[name]()
    method = FedPer(head_of(example))
    head = example.task.spec.entries(method.head)
    params, kept = rounds(example.cohort(training(), method=method), example.start, 3)
    shared, heads = example.start, [example.start[head]] * NUM_UES
    for _ in range(3):
        ends = []
        for ue in range(NUM_UES):
            point = shared.clone()
            point[head] = heads[ue]
            for _ in range(2):
                point = point - 0.2 * plain_gradient(example.task, point, *example.shard(ue))[1]
            ends.append(point)
            heads[ue] = point[head]
        mean = torch.stack(ends).mean(0)
        mean[head] = shared[head]
        shared = mean
    assert kept is not None
    torch.testing.assert_close(kept.method, torch.stack(heads), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(params, shared, rtol=1e-10, atol=1e-12)
    assert torch.equal(params[head], example.start[head])
    assert len({tuple(row.tolist()) for row in kept.method}) == NUM_UES


def test_private_models_drawn_to_the_shared_one_are_those_of_a_plain_loop() -> None:
    example = EXAMPLES["mlp"]()
    params, kept = rounds(example.cohort(training(), method=Ditto(0.5, 0.1)), example.start, 3)
    shared, own = example.start, [example.start] * NUM_UES
    for _ in range(3):
        ends = []
        for ue in range(NUM_UES):
            point = shared
            for _ in range(2):
                point = point - 0.2 * plain_gradient(example.task, point, *example.shard(ue))[1]
                pull = plain_gradient(example.task, own[ue], *example.shard(ue))[1] + 0.5 * (own[ue] - shared)
                own[ue] = own[ue] - 0.1 * pull
            ends.append(point)
        shared = torch.stack(ends).mean(0)
    assert kept is not None
    torch.testing.assert_close(kept.method, torch.stack(own), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(params, shared, rtol=1e-10, atol=1e-12)


def test_ues_are_evaluated_with_what_they_keep() -> None:
    example = EXAMPLES["mlp"]()
    cohort = example.cohort(training(), method=Ditto(0.5, 0.1))
    test = TestData(example.inputs, example.targets, Segments(np.arange(8), np.cumsum(SIZES) - SIZES, SIZES))
    params, kept = rounds(cohort, example.start, 2)
    figures = cohort.evaluate(params, test, inner_lr=0.3, kept=kept)
    assert kept is not None
    assert kept.method is not None
    for ue in range(NUM_UES):
        before, after = (plain_gradient(example.task, p, *example.shard(ue))[0] for p in (params, kept.method[ue]))
        assert figures.loss[ue] == pytest.approx(float(before))
        assert figures.meta_loss[ue] == pytest.approx(float(after))
        assert figures.personalised_test_loss[ue] == pytest.approx(float(after))
        assert figures.test_loss[ue] == pytest.approx(float(before))


@pytest.mark.parametrize("name", ["mlp", "recurrent"])
def test_chunks_and_order_change_neither_what_is_kept_nor_what_is_sent(name: str) -> None:
    example = EXAMPLES[name]()
    options = {"method": FedPer(head_of(example)), "uplink": Uplink.of([("largest", Largest(0.3))])}
    local = training(batch_size=3, batches="independent")
    whole = updates(example.cohort(local, **options), example.start, keep_per_ue=True)
    ues = np.arange(NUM_UES)[::-1].copy()
    single = updates(
        example.cohort(local, chunk=1, **options), example.start, keep_per_ue=True, ues=ues, groups=ues % 3
    )
    for one, two in ((whole.kept.method, single.kept.method), (whole.kept.uplink, single.kept.uplink)):
        torch.testing.assert_close(one, two.flip(0), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(whole.per_ue, single.per_ue.flip(0), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(whole.update, single.update, rtol=1e-10, atol=1e-12)


def test_what_does_not_travel_is_neither_sent_nor_counted() -> None:
    example = EXAMPLES["mlp"]()
    method, spec = FedPer(head_of(example)), example.task.spec
    head = spec.entries(method.head)
    found = updates(example.cohort(training(), method=method), example.start, keep_per_ue=True)
    assert not found.per_ue[:, head].any()
    assert not found.update[:, head].any()
    assert num_travelling(method, spec) == spec.num_parameters - len(head)
    assert num_travelling(None, spec) == spec.num_parameters


@pytest.mark.parametrize("name", ["mlp", "layer norm"])
def test_updates_arrive_as_the_uplink_sends_them(name: str) -> None:
    example = EXAMPLES[name]()
    uplink = Uplink.of([("largest", Largest(0.5)), ("rounding", Rounding())])
    plain = updates(example.cohort(training()), example.start, keep_per_ue=True)
    none = torch.zeros(NUM_UES, example.task.spec.num_parameters, dtype=torch.float64)
    draws = Draws(Streams(5), 2, np.arange(NUM_UES), torch.device("cpu"))
    arrived, left = uplink.send(plain.per_ue, none, draws)
    found = updates(example.cohort(training(), uplink=uplink), example.start, keep_per_ue=True)
    torch.testing.assert_close(found.per_ue, arrived, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(found.kept.uplink, left, rtol=1e-12, atol=1e-14)
    for group in range(3):
        torch.testing.assert_close(found.update[group], arrived[group::3].mean(0), rtol=1e-12, atol=1e-14)
    again = updates(example.cohort(training(), uplink=uplink), example.start, kept=found.kept)
    assert not torch.allclose(again.update, found.update)


def test_methods_that_are_objectives_keep_the_bits_of_the_objective() -> None:
    example, local = EXAMPLES["mlp"](), training(inner_lr=0.3, batch_size=3, batches="independent")
    for gradient in ("exact", "first-order"):
        method = METHODS.get("per-fedavg", gradient=gradient)()
        named = training(inner_lr=0.3, batch_size=3, batches="independent", objective=gradient)
        found, wanted = (
            updates(example.cohort(local, method=method), example.start),
            updates(example.cohort(named), example.start),
        )
        assert torch.equal(found.update, wanted.update)
    found = updates(example.cohort(local, method=METHODS.get("fedavg")()), example.start)
    plain = training(batch_size=3, batches="independent")
    assert torch.equal(found.update, updates(example.cohort(plain), example.start).update)


def test_a_method_without_state_gives_what_its_objective_gives() -> None:
    class Own(BaseMethod):
        roles = ("support", "query", "hessian")

        def local(self, steps: Any, params: Tensor, kept: Tensor, training: LocalTraining) -> Local:
            total, _, losses = descended(steps, params, training)
            return Local(total, kept, *losses)

    method: Method = Own()
    example, local = EXAMPLES["mlp"](), training(inner_lr=0.3, batch_size=3, batches="independent")
    found, wanted = (updates(example.cohort(local, method=m), example.start) for m in (method, None))
    torch.testing.assert_close(found.update, wanted.update, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.meta_loss, wanted.meta_loss)
    assert found.kept == Kept()


def test_rows_of_another_shape_are_refused() -> None:
    example = EXAMPLES["mlp"]()
    cohort = example.cohort(training(), method=Ditto(0.5, 0.1))
    with pytest.raises(LearningError, match=r"what 7 UEs keep of their method has shape \(7, 3\); wanted \(7, "):
        updates(cohort, example.start, kept=Kept(torch.zeros(NUM_UES, 3)))


def test_updates_of_all_ues_that_do_not_fit_the_memory_are_refused_beforehand() -> None:
    example = images((1, 8, 8), "mlp", hidden=(40,))
    cohort = example.cohort(training(), memory_gb=1.8e-4)
    assert updates(cohort, example.start).update.isfinite().all()
    with pytest.raises(LearningError, match=r"numbers of each of 7 UEs take .* GB at once, where learning.memory_gb"):
        updates(cohort, example.start, keep_per_ue=True)


def test_weights_come_with_the_updates_of_all_ues() -> None:
    example = EXAMPLES["mlp"]()
    found = updates(example.cohort(training()), example.start, keep_per_ue=True, weights=SIZES.astype(float))
    for group in range(3):
        own = np.arange(NUM_UES) % 3 == group
        np.testing.assert_allclose(found.shares[own], SIZES[own] / SIZES[own].sum())


class Hoarder(FedPer):
    """Nothing of it travels, and it does not say that this is meant."""

    def travels(self, spec: Any) -> Tensor:
        return torch.zeros(spec.num_parameters, dtype=torch.bool)


def test_a_mask_that_leaves_nothing_to_send_is_refused_with_the_parameters_names() -> None:
    example = EXAMPLES["mlp"]()
    spec = example.task.spec
    with pytest.raises(LearningError, match=f"of the parameters {spec.names[0]}, .* wanted at least one to send"):
        Sending.of(spec, Hoarder(head_of(example)), IDENTITY, torch.device("cpu"))
