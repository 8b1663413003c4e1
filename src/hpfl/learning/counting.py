"""What a UE's local step costs, in gradients: its arithmetic over that of one plain gradient."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hpfl.learning.faults import LearningError
from hpfl.learning.general import Arrays, FlatCalculus
from hpfl.learning.method import Method, roles_of
from hpfl.learning.objective import OBJECTIVES, LocalTraining
from hpfl.learning.task import Task


def counted_passes(
    task: Task, training: LocalTraining, inputs: Tensor, targets: Tensor, method: Method | None = None
) -> float:
    """Multiplications of one local step over those of one gradient on a batch of that size, to two decimals.

    Counted on a few samples by plain automatic differentiation, as a UE would compute: 3.02 for exact MAML with one
    inner step of the paper's MLP (inner gradient, outer gradient, Hessian-vector product), 2 for first-order. A
    `method` (None: the objective that `training` names) is counted as it would compute with what a UE begins with.
    """
    weights = torch.full((len(inputs),), 1.0 / len(inputs), dtype=task.flat_template().dtype)
    own: dict[str, Arrays] = {role: (inputs, targets, weights) for role in roles_of(method, training)}  # noqa: C420
    plain = replace(training, inner_lr=0.0)
    once = _multiplications(task, plain, {"support": own["support"]})
    if once == 0:
        raise LearningError(f"no multiplication of {type(task.module).__name__} can be counted; wanted matrix products")
    return round(_multiplications(task, training, own, method) / once, 2)


def _multiplications(
    task: Task, training: LocalTraining, batches: dict[str, Arrays], method: Method | None = None
) -> int:
    step, start = FlatCalculus(task, batches), task.flat_template()
    with FlopCounterMode(display=False) as counter:
        if method is None:
            OBJECTIVES.get(training.objective)(step, start, training)
        else:
            method.local([step], start, method.first_kept(start, task.spec), training)
    return int(counter.get_total_flops())
