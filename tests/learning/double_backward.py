"""Updates and evaluations against the double-backward loop that one would write with `torch.autograd` alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from cohort_examples import Example, Segments, updates
from torch import Tensor, nn

from hpfl.learning import Cohort, LocalTraining, TestData
from hpfl.learning.batches import drawn_index, member_draws
from hpfl.rng import Streams

Shard = tuple[Tensor, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class DoubleBackward:
    """The personalised gradient of one UE as one would write it with `torch.autograd` alone, in float64."""

    module: nn.Module
    loss: Loss  # a mean over its batch, as torch defines it
    training: LocalTraining

    def loss_at(self, point: dict[str, Tensor], shard: Shard) -> Tensor:
        return self.loss(torch.func.functional_call(self.module, point, (shard[0],)), shard[1])

    def gradient(self, point: dict[str, Tensor], shard: Shard, *, again: bool = False) -> dict[str, Tensor]:
        loss = self.loss_at(point, shard)
        parts = torch.autograd.grad(loss, list(point.values()), create_graph=again, materialize_grads=True)
        return dict(zip(point, parts, strict=True))

    def moved(self, point: dict[str, Tensor], scale: float, way: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: (p + scale * way[name]).detach().requires_grad_() for name, p in point.items()}

    def adapted(self, start: dict[str, Tensor], shard: Shard, rate: float, steps: int) -> list[dict[str, Tensor]]:
        points = [start]
        for _ in range(steps if rate > 0 else 0):
            points.append(self.moved(points[-1], -rate, self.gradient(points[-1], shard)))
        return points

    def step(self, start: dict[str, Tensor], roles: dict[str, Shard]) -> tuple[dict[str, Tensor], float, float]:
        """One local step: its direction, and the losses before and after adaptation."""
        support, alpha = roles["support"], self.training.inner_lr
        query, hessian = roles.get("query", support), roles.get("hessian", support)
        *path, theta = self.adapted(start, support, alpha, self.training.inner_steps)
        way = self.gradient(theta, query)
        for point in reversed(path):
            gradient = self.gradient(point, hessian, again=True)
            along = sum((gradient[name] * way[name]).sum() for name in point)
            assert isinstance(along, Tensor)
            if along.requires_grad:
                product = torch.autograd.grad(along, list(point.values()), materialize_grads=True)
                way = {name: way[name] - alpha * part for name, part in zip(point, product, strict=True)}
        before = self.loss_at(start, support if path else query)
        return way, float(before.detach()), float(self.loss_at(theta, query).detach())

    def update(self, start: dict[str, Tensor], steps: list[dict[str, Shard]]) -> tuple[Tensor, float, float]:
        """The sum of all local steps' directions, flat, and the first one's losses."""
        point, total, losses = start, dict.fromkeys(start, torch.zeros((), dtype=torch.float64)), []
        for roles in steps:
            way, *both = self.step(point, roles)
            losses.append(both)
            total = {name: total[name] + way[name] for name in start}
            point = self.moved(point, -self.training.outer_lr, way)
        return torch.cat([total[name].reshape(-1) for name in start]), losses[0][0], losses[0][1]


def batches_of(
    example: Example, ue: int, training: LocalTraining, streams: Streams, key: int
) -> list[dict[str, Shard]]:
    """What a UE computes on in every local step: its shard, or the samples its streams draw."""
    inputs, targets = example.shard(ue)
    if training.batch_size is None:
        return [{"support": (inputs, targets)}] * training.local_steps
    size, steps = example.sizes[[ue]], []
    for number in range(training.local_steps):
        words = {
            role: member_draws(streams.at(f"batch/{role}/{number}", key), np.array([ue]), training.batch_size)
            for role in training.roles
        }
        taken = {r: drawn_index(w, size)[0, : min(int(size[0]), training.batch_size)] for r, w in words.items()}
        steps.append({role: (inputs[index], targets[index]) for role, index in taken.items()})
    return steps


SHARES = np.array([0.3, 2.0, 1.0, 0.7])


def start_of(example: Example) -> dict[str, torch.Tensor]:
    parts = example.task.spec.unflatten(example.start)
    return {name: part.detach().clone().requires_grad_() for name, part in parts.items()}


def check_updates(example: Example, cohort: Cohort, plain: DoubleBackward) -> None:
    """Each UE's update and losses, and their weighted mean over groups."""
    groups = np.array([0, 0, 1, 1])
    result = updates(cohort, example.start, groups=groups, num_groups=2, keep_per_ue=True, weights=SHARES)
    summed = updates(cohort, example.start, groups=groups, num_groups=2, weights=SHARES)
    expected = [
        plain.update(start_of(example), batches_of(example, ue, plain.training, Streams(5), 2)) for ue in range(4)
    ]
    shares = SHARES / np.bincount(groups, SHARES)[groups]
    for ue in range(4):
        torch.testing.assert_close(result.per_ue[ue], expected[ue][0], rtol=1e-8, atol=1e-10)
    for group in (0, 1):
        mean = sum(shares[ue] * expected[ue][0] for ue in np.flatnonzero(groups == group))
        torch.testing.assert_close(result.update[group], mean, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(summed.update[group], mean, rtol=1e-8, atol=1e-10)
    losses = np.array([e[1:] for e in expected]) * shares[:, None]
    np.testing.assert_allclose(result.loss, np.bincount(groups, losses[:, 0]), rtol=1e-9)
    np.testing.assert_allclose(result.meta_loss, np.bincount(groups, losses[:, 1]), rtol=1e-9)


def check_evaluation(example: Example, cohort: Cohort, plain: DoubleBackward, test: TestData) -> None:
    """Losses and accuracies of every UE before and after two inner steps."""
    figures = cohort.evaluate(example.start, test, inner_lr=0.3, inner_steps=2)
    for ue in range(4):
        points = plain.adapted(start_of(example), example.shard(ue), 0.3, 2)
        first, last = (float(plain.loss_at(point, example.shard(ue)).detach()) for point in (points[0], points[-1]))
        np.testing.assert_allclose([figures.loss[ue], figures.meta_loss[ue]], [first, last], rtol=1e-9)
        rows = slice(ue, ue + int(test.shards.length[ue]))
        if example.targets.is_floating_point():
            continue
        for point, found in ((points[-1], figures.personalised_accuracy), (points[0], figures.global_accuracy)):
            outputs = torch.func.functional_call(plain.module, point, (example.inputs[rows],))
            assert found[ue] == pytest.approx(float((outputs.argmax(1) == example.targets[rows]).double().mean()))


def check_against_double_backward(
    example: Example, training: LocalTraining, loss: Loss, *, products_kept: bool = True, layerwise: bool = True
) -> Cohort:
    """Updates and evaluations of four UEs; the loss is torch's own, over whole batches."""
    test = TestData(example.inputs, example.targets, Segments(np.arange(5), np.arange(4), np.array([4, 8, 2, 5])))
    cohort = example.cohort(training, test=test, layerwise=layerwise)
    if not products_kept:
        cohort.data.gram = None  # as where the memory does not hold inner products
    plain = DoubleBackward(cohort.task.module, loss, training)
    check_updates(example, cohort, plain)
    check_evaluation(example, cohort, plain, test)
    return cohort
