"""Whether a model and a loss take the data and have a UE's gradient at all: tried on a few samples before a run."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hpfl.learning.check_loss import alike, check_loss, tried
from hpfl.learning.faults import LearningError
from hpfl.learning.precision import repeatable
from hpfl.learning.refusals import NOT_KEYED, layer_name, random_states
from hpfl.learning.task import Task

_ROUNDING = 1e-3  # of the largest output: sums in another order stay far below


@torch.no_grad()
def check_model(task: Task, inputs: Tensor, targets: Tensor) -> None:
    """Refuse a model or loss that does not take the data, and what has no place in a UE's gradient.

    That is a model that draws random numbers, changes its buffers or inputs, answers otherwise when asked again, or in
    which one sample's outputs depend on another's; and a loss that is no mean over samples. `inputs` are a few
    samples, `targets` all.
    """
    task = replace(task, module=copy.deepcopy(task.module))
    parameters = task.trial_parameters()

    def outputs_of(inputs: Tensor) -> Tensor:
        return _outputs(task, parameters, inputs)

    with repeatable():
        outputs = _watched(task.module, parameters, inputs, outputs_of)
        check_loss(task, outputs, targets)
        _refuse_change(outputs, outputs_of(inputs))
        for number, own in enumerate(torch.split(inputs, 1)):
            if not alike(outputs[number : number + 1], outputs_of(own), _ROUNDING):
                raise LearningError(
                    "a sample's outputs depend on the other samples of its batch; wanted a model without that"
                )


def _outputs(task: Task, parameters: Tensor, inputs: Tensor) -> Tensor:
    """One row of outputs for each sample."""
    named, failing = task.spec.unflatten(parameters), f"the model fails on inputs of shape {tuple(inputs.shape[1:])}"
    outputs = tried(lambda: functional_call(task.module, named, (inputs,)), failing)
    if not isinstance(outputs, Tensor):
        raise LearningError(f"the model gives {type(outputs).__name__}; wanted one tensor")
    if outputs.shape[:1] != inputs.shape[:1]:
        shape, count = tuple(outputs.shape), len(inputs)
        raise LearningError(
            f"the model gives outputs of shape {shape} for a batch of {count}; wanted a row for each sample"
        )
    return outputs


def _watched(module: nn.Module, parameters: Tensor, inputs: Tensor, outputs_of: Callable[[Tensor], Tensor]) -> Tensor:
    """Outputs of a model that neither draws random numbers nor writes over its buffers, parameters or inputs."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    given, version, drawing = parameters.clone(), inputs._version, _drawing_layers(module, inputs.device)
    outputs = outputs_of(inputs)
    if drawing:
        raise LearningError(f"{drawing[0]} {NOT_KEYED}; wanted a model that draws none (dropout of p = 0, no noise)")
    for name, buffer in module.named_buffers():
        if not torch.equal(before[name], buffer):
            raise LearningError(
                f"buffer {name!r} changes in training, which has no place in a UE's gradient; keep such state out of "
                "the model, or use a layer without it (nn.GroupNorm, nn.LayerNorm)"
            )
    if not torch.equal(parameters, given):
        raise LearningError("the model writes over its parameters when it is called; wanted one that only reads them")
    if inputs._version != version:
        raise LearningError("the model writes over its inputs, which are the data; wanted inplace = False there")
    return outputs


def _refuse_change(outputs: Tensor, again: Tensor) -> None:
    if not alike(outputs, again, _ROUNDING if outputs.is_cuda else 0.0):  # a GPU may add up in any order
        raise LearningError(
            "the model gives other outputs when it is asked again with the same inputs, so that a run would not "
            "repeat; wanted a model that keeps nothing from call to call and draws no random numbers"
        )


def _drawing_layers(module: nn.Module, device: torch.device) -> list[str]:
    """A list to which every forward pass adds the layers that took random numbers in it, innermost first."""
    drawing: list[str] = []
    states: list[Any] = []

    def enter(part: nn.Module, args: Any) -> None:
        states.append(random_states(device))

    def left(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def leave(part: nn.Module, args: Any, result: Any) -> None:
            if random_states(device) != states.pop():
                drawing.append(layer_name(name, part))

        return leave

    for name, part in module.named_modules():
        part.register_forward_pre_hook(enter)
        part.register_forward_hook(left(name))
    return drawing
