"""Reads a module as a chain of layers by tracing it, or says that it is none."""

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from torch import fx, nn

from hpfl.learning.chain.chain_calculus import Chain
from hpfl.learning.chain.convolution import Convolution, Geometry
from hpfl.learning.chain.dense import Dense
from hpfl.learning.chain.free import AvgPool, Elementwise, Flatten, Free, MaxPool, Relu, Tanh
from hpfl.learning.chain.link import Link
from hpfl.learning.chain.output import output_of
from hpfl.learning.chain.weighted import Weighted
from hpfl.learning.task import Task

Build = Callable[[Any, str], Any]
"""A layer of a submodule and its name."""

_NO_MORE: Mapping[type[nn.Module], Build] = MappingProxyType({})
_SMOOTH_MODULES = (
    nn.Sigmoid,
    nn.GELU,
    nn.SiLU,
    nn.Softplus,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.LeakyReLU,
    nn.Mish,
    nn.Softsign,
)
_RELUS = (torch.relu, F.relu, "relu")
_TANHS = (torch.tanh, F.tanh, "tanh")
_SIGMOIDS = (torch.sigmoid, F.sigmoid, "sigmoid")


class NotAChainError(Exception):
    """The module is more than a chain of layers known here."""


def chain_of(task: Task) -> Chain | None:
    """The chain a task's module is, or None for any other module."""
    try:
        graph = fx.symbolic_trace(task.module).graph
        layers = chain_layers(task.module, graph)
    except Exception:  # noqa: BLE001  tracing runs the user's code, which may object in any way; then it is no chain
        return None
    names = [layer.name for layer in layers if isinstance(layer, Dense | Convolution)]
    own = {f"{name}.{part}" for name in names for part in ("weight", "bias")}
    if not names or len(set(names)) < len(names) or not set(task.spec.names) <= own or _frozen(task.module):
        return None
    return _linked(layers, task)


def unlike_its_parameters(task: Task, names: Sequence[str]) -> bool:
    """Whether layers' parameters by these names are others than a task's, or some are frozen or shared."""
    own, model = set(names), set(task.spec.names) - set(task.spec.beside)
    return len(own) < len(names) or model != own or _frozen(task.module)


def _frozen(module: nn.Module) -> bool:
    return any(not p.requires_grad for p in module.parameters()) or _shared(module)


def _shared(module: nn.Module) -> bool:
    every = [id(p) for _, p in module.named_parameters(remove_duplicate=False)]
    return len(set(every)) < len(every)


def _linked(layers: list[Any], task: Task) -> Chain:
    first: list[Free] = []
    links: list[tuple[Weighted, list[Free]]] = []
    for layer in layers:
        if isinstance(layer, Dense | Convolution):
            links.append((layer, []))
        else:
            (links[-1][1] if links else first).append(layer)
    output = output_of(task.criterion, task.loss)
    return Chain(tuple(first), tuple(Link(layer, tuple(then)) for layer, then in links), output)


def chain_layers(module: nn.Module, graph: fx.Graph, more: Mapping[type[nn.Module], Build] = _NO_MORE) -> list[Any]:
    """The layers of a traced module in order; `more` says what is made of further kinds of submodules."""
    layers: list[Any] = []
    previous: Any = None
    for node in graph.nodes:
        if node.op == "placeholder" and previous is None:
            previous = node
            continue
        if node.op == "output":
            if node.args[0] is not previous:
                raise NotAChainError
            return layers
        if node.all_input_nodes != [previous] or node.args[0] is not previous or len(previous.users) != 1:
            raise NotAChainError
        layer = _module_layer(module, node, {**_MODULES, **more}) if node.op == "call_module" else _call_layer(node)
        layers += [] if layer is None else [layer]
        previous = node
    raise NotAChainError


def _module_layer(module: nn.Module, node: fx.Node, known: Mapping[type[nn.Module], Build]) -> Any:
    """The layer of a submodule; None for one that does nothing."""
    part, name = module.get_submodule(str(node.target)), str(node.target)
    for kind, build in known.items():
        if type(part) is kind:
            return build(part, name)
    raise NotAChainError


def _dense(part: Any, name: str) -> Dense:
    return Dense(name, (part.out_features, part.in_features), part.bias is not None)


def _convolution(part: Any, name: str) -> Convolution:
    if part.padding_mode != "zeros" or isinstance(part.padding, str):
        raise NotAChainError
    geometry = Geometry(part.stride, part.padding, part.dilation, part.groups)
    return Convolution(name, tuple(part.weight.shape), part.bias is not None, geometry)


def _flatten(part: Any, name: str) -> Flatten:
    if (part.start_dim, part.end_dim) != (1, -1):
        raise NotAChainError
    return Flatten()


def _max_pool(part: Any, name: str) -> MaxPool:
    window = (part.kernel_size, part.stride, part.padding, part.dilation)
    return _max_pool_call(*window, part.ceil_mode, part.return_indices)


def _avg_pool(part: Any, name: str) -> AvgPool:
    pairs = [_pair(v) for v in (part.kernel_size, part.stride or part.kernel_size, part.padding)]
    return AvgPool((*pairs, part.ceil_mode, part.count_include_pad, part.divisor_override))


def _elementwise(part: Any) -> Elementwise:
    """The function of an activation, whose inputs are kept for its derivatives: never written over in place."""
    if not getattr(part, "inplace", False):
        return Elementwise(part)
    apart = copy.copy(part)
    apart.inplace = False
    return Elementwise(apart)


_MODULES: dict[type[nn.Module], Build] = {
    nn.Linear: _dense,
    nn.Conv2d: _convolution,
    nn.Flatten: _flatten,
    nn.MaxPool2d: _max_pool,
    nn.AvgPool2d: _avg_pool,
    nn.ReLU: lambda part, name: Relu(),
    nn.Tanh: lambda part, name: Tanh(),
    nn.Identity: lambda part, name: None,
    nn.Dropout: lambda part, name: None,  # of probability 0, others are refused
    **{kind: lambda part, name: _elementwise(part) for kind in _SMOOTH_MODULES},
}


def _call_layer(node: fx.Node) -> Any:
    """The layer of a function or method call."""
    extra = (*node.args[1:], *[v for k, v in node.kwargs.items() if not (k == "inplace" and v is False)])
    if node.target in _RELUS and not extra:
        return Relu()
    if node.target in _TANHS and not extra:
        return Tanh()
    if node.target in _SIGMOIDS and not extra:
        return Elementwise(torch.sigmoid)
    if node.target in (torch.flatten, "flatten") and extra in ((1,), (1, -1)):
        return Flatten()
    if node.target is F.max_pool2d:
        window: Any = node.args[1:]
        options: Any = node.kwargs
        return _max_pool_call(*window, **options)
    raise NotAChainError


def _max_pool_call(
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> MaxPool:
    if return_indices:
        raise NotAChainError
    pairs = [_pair(v) for v in (kernel_size, stride or kernel_size, padding, dilation)]
    return MaxPool((*pairs, ceil_mode))


def _pair(value: Any) -> tuple[int, int]:
    return (operator.index(value),) * 2 if not isinstance(value, tuple | list) else (value[0], value[1])
