"""Whether a UE's own samples fit the experiment's model, tried on a few before the UE connects to anybody."""

from torch import Tensor

from hpfl.data.dataset import DatasetError
from hpfl.deployment.greeting import Shapes
from hpfl.deployment.own_data import OwnData
from hpfl.learning import LearningError, Task
from hpfl.learning.check import check_model

_TRIED_SAMPLES = 4


def check_own_data(data: OwnData, task: Task, shapes: Shapes) -> None:
    """Refuse samples that the model or its loss does not take, with what came and what was wanted."""
    parts = {"training": (data.inputs, data.targets), "test": (data.test_inputs, data.test_targets)}
    for part, (inputs, targets) in parts.items():
        if not len(inputs):
            continue
        try:
            check_model(task, inputs[:_TRIED_SAMPLES].to(task.trial_parameters().dtype), targets)
        except LearningError as error:
            raise DatasetError(f"{part} part: {_said(inputs, targets, shapes)}: {error}") from error


def _said(inputs: Tensor, targets: Tensor, shapes: Shapes) -> str:
    """What came beside what was wanted: of inputs where these differ in shape, else of targets."""
    came, wanted, outputs = tuple(inputs.shape[1:]), shapes.input_shape, shapes.num_outputs
    if came != wanted:
        return f"inputs of shape {came} and type {_kind(inputs)} came, wanted shape {wanted} (input_shape)"
    each = tuple(targets.shape[1:]) or "()"
    span = f"from {targets.min().item():g} to {targets.max().item():g}"
    told = f"targets of shape {each} and type {_kind(targets)} {span} came"
    return f"{told}, wanted what a model of {outputs} outputs (num_outputs) can be held to"


def _kind(array: Tensor) -> str:
    return str(array.dtype).removeprefix("torch.")
