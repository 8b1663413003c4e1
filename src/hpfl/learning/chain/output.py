"""The loss at the end of a chain: its value, its errors, and their tangents."""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.losses import LossFunction, cross_entropy


class Output(Protocol):
    """Weighted losses of rows [u, n, ...]."""

    def errors(self, outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Any]:
        """Loss per UE [u], its derivative by the outputs, and what the tangents need."""

    def tangents(self, tangents: Tensor, batch: Batch, kept: Any) -> Tensor:
        """Tangents of the errors along tangents of the outputs."""


class CrossEntropy:
    """Cross-entropy of class scores [u, n, classes]: errors `weight (softmax - target)`."""

    def errors(self, outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Loss, errors and class probabilities."""
        chosen = batch.targets.unsqueeze(-1)
        scores = outputs - outputs.amax(-1, keepdim=True)  # by hand: torch's softmax is slow over few classes
        probabilities = scores.exp()
        total = probabilities.sum(-1, keepdim=True)
        probabilities.div_(total)
        losses = total.log_().sub_(scores.gather(-1, chosen)).squeeze(-1)
        loss = (losses * batch.weights).sum(1)
        errors = probabilities.scatter_add(-1, chosen, torch.full_like(total, -1))
        return loss, errors.mul_(batch.weights.unsqueeze(-1)), probabilities

    def tangents(self, tangents: Tensor, batch: Batch, kept: Tensor) -> Tensor:
        """`weight (p R - p (p . R))`."""
        pushed = kept * tangents
        return pushed.addcmul(kept, pushed.sum(-1, keepdim=True), value=-1).mul_(batch.weights.unsqueeze(-1))


class AnyLoss:
    """Any loss per sample, differentiated by `torch.func`."""

    def __init__(self, loss: LossFunction) -> None:
        self.loss = loss

    def errors(self, outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Loss, errors, and the outputs to differentiate at again."""
        errors, loss = torch.func.grad_and_value(self._total(batch), has_aux=True)(outputs)
        return loss[1], errors, outputs

    def tangents(self, tangents: Tensor, batch: Batch, kept: Tensor) -> Tensor:
        """Reverse over reverse; the Hessian is symmetric."""
        gradient = torch.func.grad(lambda outputs: self._total(batch)(outputs)[0])
        pushed: Tensor = torch.func.grad(lambda outputs: (gradient(outputs) * tangents).sum())(kept)
        return pushed

    def _total(self, batch: Batch) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def total(outputs: Tensor) -> tuple[Tensor, Tensor]:
            losses = self.loss(outputs.flatten(0, 1), batch.targets.flatten(0, 1))
            per_ue = (losses.view(batch.weights.shape) * batch.weights).sum(1)
            return per_ue.sum(), per_ue

        return total


def output_of(criterion: LossFunction, loss: LossFunction) -> Output:
    """The output of a task: closed forms where there are some."""
    return CrossEntropy() if criterion is cross_entropy else AnyLoss(loss)
