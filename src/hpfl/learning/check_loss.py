"""Whether a loss is what a UE's loss is: a mean over samples, of which each is alone in its part."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpfl.learning.batches import sample_weights, spread
from hpfl.learning.faults import LearningError
from hpfl.learning.losses import LossFunction, cross_entropy
from hpfl.learning.refusals import NOT_KEYED, random_states
from hpfl.learning.task import Task

_ROUNDING = 1e-4  # of the largest loss of a sample
_MOST_SEARCHED, _MOST_CLASSES, _MOST_ALONE = 65536, 256, 16  # targets among which classes are looked for, and tried


def check_loss(task: Task, outputs: Tensor, targets: Tensor) -> None:
    """Refuse a loss that fails on a few outputs, classes without an output, and what is no mean over samples.

    `targets` are all there are: of classes each one is tried, since a loss may weigh them differently.
    """
    _refuse_classes_beyond(task, outputs, targets)
    shapes = f"outputs of shape {tuple(outputs.shape[1:])} and targets of shape {tuple(targets.shape[1:])}"
    chosen = targets[_varied(targets)]
    paired = outputs[torch.arange(len(chosen), device=outputs.device) % len(outputs)]
    before = random_states(outputs.device)
    together = tried(lambda: task.criterion(paired, chosen), f"the loss fails on {shapes}")
    if random_states(outputs.device) != before:
        raise LearningError(f"{_named(task.criterion)} {NOT_KEYED}; wanted a loss that draws none")
    _refuse_shape(task.criterion, together, len(chosen))
    losses = tried(lambda: task.loss(paired, chosen), f"the loss fails on {shapes}, one sample at a time")
    if together.ndim == 0:
        _refuse_no_mean(task, chosen, together, losses)
        return
    few = (torch.split(array[:_MOST_ALONE], 1) for array in (paired, chosen))
    alone = torch.cat([task.loss(*pair) for pair in zip(*few, strict=True)])
    if not alike(alone, losses[:_MOST_ALONE], _ROUNDING):
        raise LearningError(
            f"{_named(task.criterion)} of a sample depends on the other samples of its batch; wanted one without that"
        )


def _refuse_classes_beyond(task: Task, outputs: Tensor, targets: Tensor) -> None:
    """Refuse classes without an output before torch meets them: a GPU does not recover from that."""
    if task.criterion is not cross_entropy and task.mass is None:
        return
    if targets.is_floating_point() or outputs.ndim != targets.ndim + 1 or not targets.numel():
        return
    given, largest = outputs.shape[-1 if task.criterion is cross_entropy else 1], int(targets.max())
    if largest >= given and largest != getattr(task.criterion, "ignore_index", None):
        raise LearningError(f"the model gives {given} outputs; classes go up to {largest}")


def _refuse_shape(criterion: LossFunction, result: Any, count: int) -> None:
    if not isinstance(result, Tensor):
        raise LearningError(f"{_named(criterion)} gives {type(result).__name__}; wanted a tensor")
    if result.ndim and len(result) != count:
        shape = tuple(result.shape)
        raise LearningError(f"{_named(criterion)} gives shape {shape} for {count} samples; wanted one number for each")


def _refuse_no_mean(task: Task, targets: Tensor, together: Tensor, losses: Tensor) -> None:
    """Refuse one number for a batch that is not what the losses of its samples make of it."""
    weights = sample_weights(targets.unsqueeze(0), np.array([len(targets)]), task.mass)[0].to(losses)
    expected = (losses * weights).sum()
    if alike(together, expected, _ROUNDING, scale=losses * weights.max() * len(losses)):
        return
    found = f"{_named(task.criterion)} gives {float(together):.4g} for {len(targets)} samples"
    if alike(together, losses.sum(), _ROUNDING):
        raise LearningError(
            f'{found}, the sum of their losses; a UE\'s loss is a mean over its samples: wanted reduction = "mean"'
        )
    raise LearningError(
        f"{found} whose own losses have the mean {float(expected):.4g}: it is no mean over samples, as a UE's loss is; "
        'wanted one number for each sample (reduction = "none"), or torch.nn.CrossEntropyLoss for class weights'
    )


def _varied(targets: Tensor) -> Tensor:
    """Rows with every class there is (or so), or a few from all over the data where targets are no classes."""
    rows = spread(len(targets), _MOST_SEARCHED)
    if targets.ndim > 1 or targets.is_floating_point():
        return rows[spread(len(rows), _MOST_ALONE)].to(targets.device)
    _, first = np.unique(targets[rows.to(targets.device)].cpu().numpy(), return_index=True)
    return rows[first[spread(len(first), _MOST_CLASSES).numpy()]].to(targets.device)


def alike(one: Tensor, other: Tensor, share: float, *, scale: Tensor | None = None) -> bool:
    """Whether two tensors differ by at most a share of the largest finite number (of `scale`, or of the second)."""
    sizes = other if scale is None else scale
    largest = float(torch.where(sizes.isfinite(), sizes.abs(), 0.0).max()) if sizes.numel() else 0.0
    return one.shape == other.shape and torch.allclose(one, other, rtol=0.0, atol=share * largest, equal_nan=True)


def tried(what: Callable[[], Any], failing: str) -> Any:
    """The outcome, or a refusal with the first line of what went wrong."""
    try:
        return what()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise LearningError(f"{failing}: {reason}") from error


def _named(criterion: LossFunction) -> str:
    own = type(criterion) if isinstance(criterion, nn.Module) else criterion
    return f"the loss {getattr(own, '__name__', type(own).__name__)}"
