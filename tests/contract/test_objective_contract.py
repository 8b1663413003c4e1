"""Laws of every registered objective, whoever wrote it."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from hpfl.learning import OBJECTIVES, Cohort, LocalTraining, Task, make_task
from hpfl.rng import Streams


@dataclass(frozen=True)
class Segments:
    offsets: np.ndarray
    start: np.ndarray
    length: np.ndarray


SIZES = np.array([4, 9, 6, 5])


def task_and_data() -> tuple[Task, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(int(SIZES.sum()), 5, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (len(inputs),), generator=generator)
    return make_task(lambda: nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))), inputs, targets


def update(training: LocalTraining, *, layerwise: bool = True, chunk: int | None = None) -> torch.Tensor:
    task, inputs, targets = task_and_data()
    shards = Segments(np.arange(5), np.cumsum(SIZES) - SIZES, SIZES)
    cohort = Cohort(
        task,
        training,
        inputs=inputs,
        targets=targets,
        shards=shards,
        dtype=torch.float64,
        layerwise=layerwise,
        chunk=chunk,
    )
    start = task.initial_parameters(Streams(1).at("init"))
    groups = np.array([0, 1, 0, 1])
    return cohort.updates(start, ues=np.arange(4), groups=groups, num_groups=2, streams=Streams(2), key=0).update


@pytest.mark.parametrize("objective", OBJECTIVES.names())
def test_without_an_inner_step_every_objective_is_the_plain_gradient(objective: str) -> None:
    plain = update(LocalTraining(inner_lr=0.0, outer_lr=0.1, objective="first-order"))
    torch.testing.assert_close(update(LocalTraining(inner_lr=0.0, outer_lr=0.1, objective=objective)), plain)
    none = LocalTraining(inner_lr=0.5, inner_steps=0, outer_lr=0.1, objective=objective)
    torch.testing.assert_close(update(none), plain)


@pytest.mark.parametrize("objective", OBJECTIVES.names())
def test_both_engines_and_all_chunks_agree(objective: str) -> None:
    training = LocalTraining(inner_lr=0.5, outer_lr=0.1, objective=objective, inner_steps=2, batch_size=3)
    reference = update(training)
    for layerwise in (True, False):
        for chunk in (1, 3):
            torch.testing.assert_close(
                update(training, layerwise=layerwise, chunk=chunk), reference, rtol=1e-8, atol=1e-10
            )


@pytest.mark.parametrize("objective", OBJECTIVES.names())
def test_an_objective_tends_to_the_exact_one_as_the_inner_step_vanishes(objective: str) -> None:
    def gap(inner_lr: float) -> float:
        pair = [update(LocalTraining(inner_lr=inner_lr, outer_lr=0.1, objective=o)) for o in (objective, "exact")]
        return float((pair[0] - pair[1]).norm() / pair[1].norm())

    assert gap(1e-5) < 1e-4


def test_the_hessian_free_objective_is_exact_up_to_its_step() -> None:
    exact = update(LocalTraining(inner_lr=0.5, outer_lr=0.1))
    free = update(LocalTraining(inner_lr=0.5, outer_lr=0.1, objective="hessian-free", hessian_free_delta=1e-4))
    first = update(LocalTraining(inner_lr=0.5, outer_lr=0.1, objective="first-order"))
    assert (free - exact).norm() < 1e-7 * exact.norm()
    assert (first - exact).norm() > 1e-2 * exact.norm()
