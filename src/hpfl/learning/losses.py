"""Losses: a function of outputs and targets that gives one number per sample, so that padding can be weighted out.

A loss of one's own may instead give the mean over its batch: it is then called on one sample at a time. Torch's
cross-entropy with class weights divides by the weights of the batch's own targets: `sample_mass` says what each
sample counts there, and a UE's loss is the sum of its samples' losses over the sum of their masses.
"""

import copy
import math
from collections.abc import Callable
from typing import TypeGuard

import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from torch import Tensor, nn

from hpfl.learning.faults import LearningError
from hpfl.registry import Registry

LossFunction = Callable[[Tensor, Tensor], Tensor]
Mass = Callable[[Tensor], Tensor]
"""What each sample [n] counts in the mean over a batch, of the targets [n, ...]."""

LOSSES: Registry[LossFunction] = Registry("loss", plural="losses", traits={"least": -math.inf})
"""Trait `least`: the least value of a mean of it; a UE that reports one below is refused."""

_IGNORED_TARGET = -100  # torch's own mark of a token that does not count


@LOSSES.register("cross-entropy", least=0.0)
def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of class scores [n, ..., classes] per sample, the mean over its tokens where it has several."""
    if targets.ndim == 1:
        return F.cross_entropy(outputs, targets, reduction="none")
    losses = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none").view(targets.shape)
    counted = (targets != _IGNORED_TARGET).flatten(1).sum(1).clamp(min=1)
    return losses.flatten(1).sum(1) / counted


@LOSSES.register("mse", least=0.0)
def mse(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared error per sample, the mean over its outputs; a class is 1 in its place and 0 in the others."""
    if outputs.ndim == targets.ndim + 1 and outputs.shape[-1] == 1:
        outputs = outputs.squeeze(-1)
    elif outputs.ndim == targets.ndim + 1 and not targets.is_floating_point():
        targets = targets.unsqueeze(-1) == torch.arange(outputs.shape[-1], device=targets.device)
    if outputs.shape != targets.shape:
        shapes = f"outputs of shape {tuple(outputs.shape)} and targets of shape {tuple(targets.shape)}"
        raise LearningError(f"{shapes} have no squared error")
    squares = (outputs - targets.to(outputs.dtype)).square()
    return squares.flatten(1).mean(1) if squares.ndim > 1 else squares


def per_sample(loss: LossFunction) -> LossFunction:
    """The same loss with one number per sample: several per sample are averaged, a batch mean is taken apart.

    Where samples have a mass, the number is the sample's part of the sum that the masses divide.
    """
    if _divides_by_weights(loss):
        return _undivided(loss)

    def losses(outputs: Tensor, targets: Tensor) -> Tensor:
        values = loss(outputs, targets)
        if values.ndim == 0:
            return torch.func.vmap(lambda o, t: loss(o.unsqueeze(0), t.unsqueeze(0)))(outputs, targets)
        return values.flatten(1).mean(1) if values.ndim > 1 else values

    return losses


def sample_mass(loss: LossFunction) -> Mass | None:
    """What samples count in the mean that a loss of torch takes; None: all alike."""
    if not _divides_by_weights(loss):
        return None

    def mass(targets: Tensor) -> Tensor:
        if targets.is_floating_point():  # shares of classes [n, classes, ...]: every place counts 1
            return targets.new_full(targets.shape[:1], targets[0, 0].numel())
        counted = targets != loss.ignore_index
        own = counted.double() if loss.weight is None else loss.weight[targets * counted] * counted
        return own.flatten(1).sum(1) if own.ndim > 1 else own

    return mass


def _divides_by_weights(loss: LossFunction) -> TypeGuard[nn.CrossEntropyLoss | nn.NLLLoss]:
    return type(loss) in (nn.CrossEntropyLoss, nn.NLLLoss) and loss.reduction == "mean"  # type: ignore[attr-defined]


def _undivided(loss: nn.CrossEntropyLoss | nn.NLLLoss) -> LossFunction:
    """The sum over a sample's own places, before the division by the masses of a batch."""
    apart = copy.copy(loss)
    apart.reduction = "none"

    def losses(outputs: Tensor, targets: Tensor) -> Tensor:
        values: Tensor = apart(outputs, targets)
        return values.flatten(1).sum(1) if values.ndim > 1 else values

    return losses


def correct(outputs: Tensor, targets: Tensor) -> Tensor | None:
    """Share of right answers per sample (mean over its tokens), or None where targets are not classes."""
    if targets.is_floating_point() or outputs.shape[:-1] != targets.shape:
        return None
    hits = outputs.argmax(-1) == targets
    counted = targets != _IGNORED_TARGET
    if targets.ndim == 1:
        return hits.to(outputs.dtype)
    return (hits & counted).flatten(1).sum(1) / counted.flatten(1).sum(1).clamp(min=1)


def refuse_unusable(loss: LossFunction) -> None:
    """Refuse a loss that would have to be made or trained itself."""
    if isinstance(loss, type):
        raise LearningError(f"the loss {loss.__name__} is a class; wanted an object of it, such as {loss.__name__}()")
    if isinstance(loss, nn.Module) and any(True for _ in loss.parameters()):
        raise LearningError(
            f"the loss {type(loss).__name__} has parameters of its own; only the model's are trained: "
            "move them into the model"
        )
