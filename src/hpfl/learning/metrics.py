"""Metrics: what is told of a model by its outputs on a UE's own test samples, one number for each UE.

A metric is a function of `TestOutputs` and one line that registers it; `figures_of` is where all of them are applied,
whichever engine the outputs come from.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from hpfl.learning.batches import weighed_rows
from hpfl.learning.faults import LearningError
from hpfl.learning.losses import correct
from hpfl.learning.task import Task
from hpfl.registry import Part, Registry

EVERYTHING = (-math.inf, math.inf)
"""The range of what may be any number."""
LOSS_COLUMNS = ("loss", "meta_loss")
"""What every evaluation begins with: the losses on the training shard, before and after adaptation."""


@dataclass(frozen=True)
class TestOutputs:
    """What a model says of the test samples of a chunk of UEs."""

    __test__ = False  # pytest would take the name for a test class

    outputs: Tensor  # [u, n, ...]
    targets: Tensor  # [u, n, ...]
    weights: Tensor  # [u, n]: one over the UE's number of samples; 0 for padding, and for a UE without any
    task: Task
    losses: Callable[[Tensor], Tensor] | None = None  # mean losses [u] of outputs, as an engine computes them

    def mean(self, values: Tensor) -> Tensor:
        """The mean [u] over each UE's samples of one value per sample, [u, n] or in one row [u n]."""
        return (values.view(self.weights.shape) * self.weights).sum(1)

    def loss(self) -> Tensor:
        """Each UE's mean loss [u]; where samples have a mass, over the sum of their masses."""
        if self.losses is not None:
            return self.losses(self.outputs)
        own = self.task.loss(self.outputs.flatten(0, 1), self.targets.flatten(0, 1)).view(self.weights.shape)
        return (own * weighed_rows(self.targets, self.weights, self.task.mass)).sum(1)


class Metric(Protocol):
    """One number for each UE; one with options is called with the keyword `options`."""

    def __call__(self, tests: TestOutputs, /) -> Tensor:
        """The metric [u] of outputs [u, n, ...]."""


METRICS: Registry[Metric] = Registry(
    "metric", traits={"columns": (), "worst": None, "recordable": False, "range": EVERYTHING}, called=("tests",)
)
"""Trait `columns`: its names for the personal model and for the shared one, `personalised_<name>` and `global_<name>`
if it gives none. `worst`: which tail of the UEs is the bad one, "low" or "high", where there is one. `recordable`: a
GPU may record it, for it looks at no value on the host and no shape depends on values. `range`: least and largest value
it can have, beside NaN; others that a UE reports are refused."""


@METRICS.register(
    "accuracy", columns=("personalised_accuracy", "global_accuracy"), worst="low", recordable=True, range=(0.0, 1.0)
)
def accuracy(tests: TestOutputs) -> Tensor:
    """Share of right answers; NaN where targets are not classes."""
    hits = correct(tests.outputs.flatten(0, 1), tests.targets.flatten(0, 1))
    return torch.full_like(tests.weights[:, 0], torch.nan) if hits is None else tests.mean(hits)


@METRICS.register("test-loss", columns=("personalised_test_loss", "test_loss"), recordable=True)
def mean_test_loss(tests: TestOutputs) -> Tensor:
    """Mean of the loss that is trained with."""
    return tests.loss()


@dataclass(frozen=True)
class BoundMetric:
    """A metric that was chosen, with its options, and what it says of itself."""

    metric: Metric
    columns: tuple[str, str]  # its names for the personal model and for the shared one
    worst: Literal["low", "high"] | None = None
    recordable: bool = False
    range: tuple[float, float] = EVERYTHING

    @staticmethod
    def of(part: Part[Metric], options: Any = None) -> "BoundMetric":
        """A metric from a registry with its options, a validated model (None: as they are by default)."""
        word = part.name.rpartition(":")[2].replace("-", "_").replace(".", "_")
        columns = tuple(part.traits["columns"]) or (f"personalised_{word}", f"global_{word}")
        worst, recordable = part.traits["worst"], bool(part.traits["recordable"])
        if len(columns) != 2 or not all(isinstance(name, str) and name.isidentifier() for name in columns):
            raise LearningError(f"{part.title} has the columns {columns}; wanted two names of letters, digits and _")
        if worst not in ("low", "high", None):
            raise LearningError(f"{part.title} says that worst is {worst!r}; wanted 'low', 'high' or None")
        least, largest = part.traits["range"]
        if not least <= largest:
            raise LearningError(f"{part.title} has the range {least} to {largest}; wanted the least value first")
        return BoundMetric(part.bound(options), (columns[0], columns[1]), worst, recordable, (least, largest))

    @property
    def tail(self) -> tuple[str, float] | None:
        """Column and quantile of what a tenth of the personal models do not reach; None: no tail is the bad one."""
        if self.worst is None:
            return None
        return (f"{self.columns[0]}_p10", 0.1) if self.worst == "low" else (f"{self.columns[0]}_p90", 0.9)


DEFAULT_METRICS: tuple[BoundMetric, ...] = tuple(
    BoundMetric.of(METRICS.part(name)) for name in ("accuracy", "test-loss")
)
"""What is measured where nothing else is asked for."""


@dataclass(frozen=True)
class Tested:
    """What an engine finds of a chunk of UEs: losses [u] on their shards, and both models' outputs on their tests."""

    loss: Tensor
    meta_loss: Tensor
    personalised: TestOutputs
    shared: TestOutputs


def columns_of(metrics: Sequence[BoundMetric]) -> tuple[str, ...]:
    """The names of all figures of a UE, in their order; no name may stand for two."""
    names = LOSS_COLUMNS + tuple(name for own in metrics for name in own.columns)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise LearningError(f"the column {twice[0]!r} is given by two metrics; wanted a name of its own for each")
    return names


def ranges_of(metrics: Sequence[BoundMetric], least_loss: float) -> list[tuple[float, float]]:
    """Least and largest value of every figure, in the order of `columns_of`, where training losses have a least."""
    return [(least_loss, math.inf)] * len(LOSS_COLUMNS) + [own.range for own in metrics for _ in own.columns]


@torch.no_grad()
def figures_of(tested: Tested, metrics: Sequence[BoundMetric]) -> Tensor:
    """All figures [columns, u] of a chunk, in the order of `columns_of`."""
    models = (tested.personalised, tested.shared)
    measured = [_measured(own, tests) for own in metrics for tests in models]
    return torch.stack([tested.loss, tested.meta_loss, *measured])


def _measured(own: BoundMetric, tests: TestOutputs) -> Tensor:
    found, wanted = own.metric(tests), tuple(tests.weights.shape[:1])
    if not isinstance(found, Tensor) or tuple(found.shape) != wanted:
        shape = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise LearningError(f"the metric of {own.columns[0]!r} gives {shape}; wanted one number for each UE, {wanted}")
    return found.to(tests.weights.dtype)
