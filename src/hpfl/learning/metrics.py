"""What a model is worth on the test samples of UEs, by name: one figure per UE."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpfl.learning.losses import correct
from hpfl.learning.task import Task
from hpfl.registry import Registry

METRICS: Registry[Any] = Registry("metric", traits={"columns": (), "worst": None, "recordable": False})
"""Trait `columns`: its name after adaptation and before. `worst`: which tail is the bad one, "low" or "high".
`recordable`: it may be recorded on a GPU."""


@dataclass(frozen=True)
class TestOutputs:
    """Outputs [u, n, ...] of the models of u UEs, their targets, and the weight [u, n] of each test sample."""

    __test__ = False  # pytest would take the name for a test class

    outputs: Tensor
    targets: Tensor
    weights: Tensor
    task: Task

    def mean(self, values: Tensor) -> Tensor:
        """The weighted mean [u] of one value per sample [u n]; NaN for a UE without samples."""
        return (values.view_as(self.weights) * self.weights).sum(1) / self.weights.sum(1)


@METRICS.register("accuracy", columns=("personalised_accuracy", "global_accuracy"), worst="low", recordable=True)
def accuracy(tests: TestOutputs) -> Tensor:
    """Share of right answers; NaN where targets are no classes."""
    hits = correct(tests.outputs.flatten(0, 1), tests.targets.flatten(0, 1))
    return torch.full_like(tests.weights[:, 0], torch.nan) if hits is None else tests.mean(hits)


@METRICS.register("test-loss", columns=("personalised_test_loss", "test_loss"), recordable=True)
def test_loss(tests: TestOutputs) -> Tensor:
    """Mean loss."""
    return tests.mean(tests.task.loss(tests.outputs.flatten(0, 1), tests.targets.flatten(0, 1)))


test_loss.__test__ = False  # nor is this one
