"""What a UE's local step costs, in gradients: the arithmetic of an objective over that of one plain gradient."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hpfl.learning.faults import LearningError
from hpfl.learning.general import Arrays, FlatCalculus
from hpfl.learning.objective import OBJECTIVES, LocalTraining
from hpfl.learning.task import Task


def counted_passes(task: Task, training: LocalTraining, inputs: Tensor, targets: Tensor) -> float:
    """Multiplications of one local step over those of one gradient on a batch of that size, to two decimals.

    Counted on a few samples by plain automatic differentiation, as a UE would compute: 3.02 for exact MAML with one
    inner step of the paper's MLP (inner gradient, outer gradient, Hessian-vector product), 2 for first-order.
    """
    weights = torch.full((len(inputs),), 1.0 / len(inputs), dtype=task.flat_template().dtype)
    own: dict[str, Arrays] = {role: (inputs, targets, weights) for role in training.roles}  # noqa: C420  each its own
    plain = replace(training, inner_lr=0.0)
    once = _multiplications(task, plain, {"support": own["support"]})
    if once == 0:
        raise LearningError(f"no multiplication of {type(task.module).__name__} can be counted; wanted matrix products")
    return round(_multiplications(task, training, own) / once, 2)


def _multiplications(task: Task, training: LocalTraining, batches: dict[str, Arrays]) -> int:
    with FlopCounterMode(display=False) as counter:
        OBJECTIVES.get(training.objective)(FlatCalculus(task, batches), task.flat_template(), training)
    return int(counter.get_total_flops())
