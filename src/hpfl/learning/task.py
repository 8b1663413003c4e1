"""What is learned: a model, its loss, and the one flat vector that holds the model's parameters everywhere else."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hpfl.learning.faults import LearningError
from hpfl.learning.losses import LOSSES, LossFunction, Mass, per_sample, refuse_unusable, sample_mass
from hpfl.learning.models import MODELS
from hpfl.learning.refusals import refuse_layers
from hpfl.registry import imported
from hpfl.rng import Stream

_TEMPLATE_SEED = 0  # the template's own values are only seen where parameters are frozen
_TRIAL_NOISE = 0.1  # of what would give outputs of unit size


@dataclass(frozen=True)
class ParameterSpec:
    """Names and shapes of the trainable parameters, in the order of the flat vector; shared ones appear once."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    beside: tuple[str, ...] = ()  # names of what is no part of the model and travels with it

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of each parameter."""
        return tuple(prod(shape) for shape in self.shapes)

    @property
    def places(self) -> dict[str, slice]:
        """Where each parameter lies in the flat vector."""
        ends = [0, *accumulate(self.sizes)]
        return {name: slice(a, b) for name, a, b in zip(self.names, ends, ends[1:], strict=False)}

    @property
    def num_parameters(self) -> int:
        """Length P of the flat vector."""
        return sum(self.sizes)

    def entries(self, *prefixes: str) -> Tensor:
        """Places in the flat vector [h] of the parameters whose names begin with one of these, in their order."""
        for prefix in prefixes:
            if not any(name.startswith(prefix) for name in self.names):
                raise LearningError(f"no parameter's name begins with {prefix!r}; there are {', '.join(self.names)}")
        own = [place for name, place in self.places.items() if name.startswith(prefixes)]
        return torch.cat([torch.arange(place.start, place.stop) for place in own]) if own else torch.arange(0)

    def flatten(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """One vector [P] of all named parameters."""
        return torch.cat([parameters[name].reshape(-1) for name in self.names])

    def unflatten(self, flat: Tensor) -> dict[str, Tensor]:
        """Views of a vector [..., P] by name, each [..., *shape]."""
        parts = torch.split(flat, list(self.sizes), dim=-1)
        lead = flat.shape[:-1]
        return {
            name: part.reshape(lead + shape) for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }


@dataclass(frozen=True)
class Task:
    """A model as a function of one flat parameter vector, and its loss per sample."""

    module: nn.Module
    criterion: LossFunction  # the loss as it was named or given
    spec: ParameterSpec
    build: Callable[[], nn.Module] | None = None  # None: the module was given, its values are the start

    @property
    def loss(self) -> LossFunction:
        """The loss per sample [n] of outputs and targets; a UE's loss is their mean, or their sum over their masses."""
        return per_sample(self.criterion)

    @property
    def mass(self) -> Mass | None:
        """What samples count in a UE's loss; None: all alike."""
        return sample_mass(self.criterion)

    def initial_parameters(self, stream: Stream) -> Tensor:
        """Fresh parameters [P] drawn with the module's own rules from one keyed stream."""
        if self.build is None:
            return self._flat(self.module)
        return self._flat(_built(self.build, stream.seed64()))

    def flat_template(self) -> Tensor:
        """The template's own parameters as a vector [P]."""
        return self._flat(self.module)

    def trial_parameters(self) -> Tensor:
        """Parameters [P] near the template's own to try things with: none is exactly zero, no two are alike."""
        draws = torch.Generator().manual_seed(_TEMPLATE_SEED)
        flat = self.flat_template()
        for place, shape in zip(self.spec.places.values(), self.spec.shapes, strict=True):
            noise = torch.randn(prod(shape), generator=draws)
            flat[place] += noise.mul_(_TRIAL_NOISE / prod(shape[1:]) ** 0.5).to(flat)
        return flat

    def outputs(self, parameters: Tensor, inputs: Tensor) -> Tensor:
        """The model's outputs at a flat vector [P]."""
        result = functional_call(self.module, self.spec.unflatten(parameters), (inputs,))
        assert isinstance(result, Tensor)
        return result

    def to(self, device: torch.device, dtype: torch.dtype) -> "Task":
        """The same task with the template's constants on a device, in a precision."""
        module = copy.deepcopy(self.module).to(device=device, dtype=dtype)
        criterion = self.criterion
        if isinstance(criterion, nn.Module):  # class weights, for one
            criterion = copy.deepcopy(criterion).to(device=device, dtype=dtype)
        return Task(module, criterion, self.spec, self.build)

    def with_beside(self, shapes: Mapping[str, tuple[int, ...]]) -> "Task":
        """The same task, whose flat vector ends with more numbers that the model does not use; they begin at zero."""
        if not shapes:
            return self
        build, spec = self.build, self.spec
        grown = ParameterSpec((*spec.names, *shapes), (*spec.shapes, *shapes.values()), tuple(shapes))
        module = _grown(copy.deepcopy(self.module), shapes)
        return Task(module, self.criterion, grown, None if build is None else lambda: _grown(build(), shapes))

    def _flat(self, module: nn.Module) -> Tensor:
        return self.spec.flatten({n: p.detach() for n, p in module.named_parameters()}).clone()


def make_task(
    model: str | nn.Module | Callable[..., nn.Module],
    loss: str | LossFunction = "cross-entropy",
    *,
    input_shape: Sequence[int] | None = None,
    num_outputs: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Task:
    """A task from a registered name, "module:callable", a module or a function that builds one.

    `input_shape` (without the batch) and `num_outputs` are handed to builders that ask for them by these names;
    `options` are further arguments of the builder, such as `hidden` of the MLP.
    """
    loss_function = LOSSES.get(loss) if isinstance(loss, str) and ":" not in loss else loss
    if isinstance(loss_function, str):
        loss_function = _imported(loss_function, "learning.loss")
    build = None if isinstance(model, nn.Module) else _builder(model, input_shape, num_outputs, options or {})
    module = model if isinstance(model, nn.Module) else _built(_given(build), _TEMPLATE_SEED)
    refuse_layers(module)
    refuse_unusable(loss_function)
    trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
    if not trainable:
        raise LearningError(f"the model {type(module).__name__} has no trainable parameters; there is nothing to learn")
    spec = ParameterSpec(tuple(trainable), tuple(tuple(p.shape) for p in trainable.values()))
    return Task(module, loss_function, spec, build)


def _grown(module: nn.Module, shapes: Mapping[str, tuple[int, ...]]) -> nn.Module:
    """A module with further parameters, which it does not use."""
    for name, shape in shapes.items():
        if hasattr(module, name):
            raise LearningError(f"the model has a part called {name!r}, which is what its method shares beside it")
        module.register_parameter(name, nn.Parameter(torch.zeros(shape)))
    return module


def _builder(
    model: str | Callable[..., nn.Module],
    input_shape: Sequence[int] | None,
    num_outputs: int | None,
    options: Mapping[str, Any],
) -> Callable[[], nn.Module]:
    if isinstance(model, str):
        model = _imported(model, "learning.model") if ":" in model else MODELS.get(model)
    hints = {"input_shape": input_shape, "num_outputs": num_outputs}
    signature = inspect.signature(model)
    wanted = signature.parameters
    arguments = {name: value for name, value in hints.items() if name in wanted and value is not None}
    arguments |= options
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise LearningError(
            f"the builder of the model: {error}; it is given {', '.join([*hints, *options])}"
        ) from error
    factory = model
    return lambda: factory(**arguments)


def _built(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = build()
    if not isinstance(module, nn.Module):
        raise LearningError(f"the builder of the model gives {type(module).__name__}; wanted a torch.nn.Module")
    return module


def _given(build: Callable[[], nn.Module] | None) -> Callable[[], nn.Module]:
    assert build is not None
    return build


def _imported(path: str, key: str) -> Any:
    """The object behind "module:callable"."""
    try:
        return imported(path)
    except ValueError as error:
        raise LearningError(f"{key} is {path!r}; {error}") from error
