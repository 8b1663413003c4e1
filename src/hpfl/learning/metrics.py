"""Metrics: what is told of a model by its outputs on a UE's own test samples, one number for each UE.

A metric is a function of `TestOutputs` and one line here; `figures_of` is the one place where metrics are applied.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from hpfl.learning.batches import loss_weights
from hpfl.learning.faults import LearningError
from hpfl.learning.losses import correct
from hpfl.learning.task import Task
from hpfl.registry import Registry

LOSS_COLUMNS = ("loss", "meta_loss")
"""What every evaluation begins with: the losses on the training shard, before and after."""


@dataclass(frozen=True)
class TestOutputs:
    """What a model says of the test samples of a chunk of UEs."""

    __test__ = False  # pytest would take the name for a test class

    outputs: Tensor  # [u, n, ...]
    targets: Tensor  # [u, n, ...]
    weights: Tensor  # [u, n]: one over the UE's number of samples; 0 for padding, and for a UE without any
    task: Task
    by_engine: Callable[[Tensor], Tensor] | None = None  # mean losses [u] of outputs, as an engine computes them

    def mean(self, values: Tensor) -> Tensor:
        """The mean [u] over each UE's samples of values [u, n]."""
        return (values * self.weights).sum(1)

    def loss(self) -> Tensor:
        """Each UE's mean loss [u]; where samples have a mass, over the sum of their masses."""
        if self.by_engine is not None:
            return self.by_engine(self.outputs)
        losses = self.task.loss(self.outputs.flatten(0, 1), self.targets.flatten(0, 1)).view(self.weights.shape)
        pairs = zip(self.targets, self.weights, strict=True)
        return (losses * torch.stack([loss_weights(*pair, self.task.mass) for pair in pairs])).sum(1)


class Metric(Protocol):
    """One number for each UE."""

    def __call__(self, tests: TestOutputs, /) -> Tensor:
        """The metric [u] of outputs [u, n, ...]."""


@dataclass(frozen=True)
class Measure:
    """A metric as it is asked for, with what it says of itself."""

    metric: Metric
    columns: tuple[str, str]  # its names for the personal model and for the shared one
    worst: Literal["low", "high"] | None = None  # the tail that is bad, told as the column `<name>_p10`
    recordable: bool = False  # whether a GPU may record it: no look at values, no shape that depends on them


METRICS: Registry[Measure] = Registry("metric")


def measure(name: str) -> Measure:
    """The metric called `name`, as it is asked for."""
    return METRICS.get(name)


def _accuracy(tests: TestOutputs) -> Tensor:
    """Share of right answers; NaN where targets are not classes."""
    hits = correct(tests.outputs.flatten(0, 1), tests.targets.flatten(0, 1))
    if hits is None:
        return torch.full_like(tests.weights[:, 0], torch.nan)
    return tests.mean(hits.view(tests.weights.shape))


def _test_loss(tests: TestOutputs) -> Tensor:
    """The task's own loss."""
    return tests.loss()


METRICS.register("accuracy")(
    Measure(_accuracy, columns=("personalised_accuracy", "global_accuracy"), worst="low", recordable=True)
)
METRICS.register("test-loss")(Measure(_test_loss, columns=("personalised_test_loss", "test_loss"), recordable=True))

SHIPPED: tuple[Measure, ...] = (measure("accuracy"), measure("test-loss"))
"""What is measured where nothing else is asked for."""


@dataclass(frozen=True)
class Tested:
    """What an engine finds of a chunk of UEs: losses [u] on their shards, and both models' outputs on their tests."""

    loss: Tensor
    meta_loss: Tensor
    personalised: TestOutputs
    shared: TestOutputs


def columns_of(measures: Sequence[Measure]) -> tuple[str, ...]:
    """The names of all figures, in their order; no name may stand for two."""
    names = LOSS_COLUMNS + tuple(name for own in measures for name in own.columns)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise LearningError(f"the column {min(twice)!r} is given by two metrics; wanted a name of its own for each")
    return names


@torch.no_grad()
def figures_of(tested: Tested, measures: Sequence[Measure]) -> Tensor:
    """All figures [columns, u] of a chunk, in the order of `columns_of`."""
    models = (tested.personalised, tested.shared)
    measured = [_checked(own, tests) for own in measures for tests in models]
    return torch.stack([tested.loss, tested.meta_loss, *measured])


def _checked(own: Measure, tests: TestOutputs) -> Tensor:
    found, wanted = own.metric(tests), tests.weights.shape[:1]
    if not isinstance(found, Tensor) or found.shape != wanted:
        shape = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise LearningError(f"the metric of {own.columns[0]!r} gives {shape}; wanted one number for each UE, {wanted}")
    return found.to(tests.weights.dtype)
