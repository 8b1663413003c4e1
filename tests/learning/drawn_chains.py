"""Random chains of every layer that is read as one, and random ways to train them."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  torch's own abbreviation
from cohort_examples import Example
from hypothesis import strategies as st
from torch import Tensor, nn

from hpfl.learning import LocalTraining, make_task

NUM_CLASSES = 3
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "gelu by tanh": lambda: nn.GELU(approximate="tanh"),
    "silu in place": lambda: nn.SiLU(inplace=True),
    "softplus": lambda: nn.Softplus(beta=2.0),
    "elu in place": lambda: nn.ELU(0.7, inplace=True),
    "selu": nn.SELU,
    "celu": lambda: nn.CELU(1.3),
    "leaky relu in place": lambda: nn.LeakyReLU(0.2, inplace=True),
    "mish": nn.Mish,
    "softsign": nn.Softsign,
    "identity": nn.Identity,
    "no dropout": lambda: nn.Dropout(0.0),
}
CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "torch.relu": torch.relu,
    "F.relu": F.relu,
    ".relu()": lambda rows: rows.relu(),
    "torch.tanh": torch.tanh,
    ".tanh()": lambda rows: rows.tanh(),
    "torch.sigmoid": torch.sigmoid,
    ".sigmoid()": lambda rows: rows.sigmoid(),
}
FLATTENINGS: list[Any] = [nn.Flatten(), lambda rows: torch.flatten(rows, 1), lambda rows: rows.flatten(1)]


class Steps(nn.Module):
    """Modules and plain functions, one after the other."""

    def __init__(self, steps: list[Any]) -> None:
        super().__init__()
        self.parts = nn.ModuleList([step for step in steps if isinstance(step, nn.Module)])
        self.order = [None if isinstance(step, nn.Module) else step for step in steps]

    def forward(self, rows: Tensor) -> Tensor:
        parts = iter(self.parts)
        for call in self.order:
            rows = next(parts)(rows) if call is None else call(rows)
        return rows


@st.composite
def poolings(draw: Any, smallest: int) -> Any:
    """A pooling of images at least `smallest` pixels wide, as a module or a call."""
    window = draw(st.integers(1, min(3, smallest)))
    stride = draw(st.sampled_from([None, 1, 2]))
    padding = draw(st.integers(0, window // 2))
    up = draw(st.booleans())
    kind = draw(st.sampled_from(["max", "mean", "call"]))
    if kind == "mean":
        return nn.AvgPool2d(window, stride, padding, up, draw(st.booleans()), draw(st.sampled_from([None, 3])))
    if kind == "max":
        return nn.MaxPool2d(window, stride, padding, ceil_mode=up)
    return lambda rows: F.max_pool2d(rows, window, stride, padding, ceil_mode=up)


@st.composite
def convolutions(draw: Any, channels: int, smallest: int) -> nn.Module:
    """A convolution over images of so many channels."""
    window, dilation = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (2, 2)]))
    groups = draw(st.sampled_from([1, channels]))
    out = groups * draw(st.integers(1, 2))
    options = {"stride": draw(st.integers(1, 2)), "padding": draw(st.integers(0, 1)), "bias": draw(st.booleans())}
    while smallest + 2 * options["padding"] < dilation * (window - 1) + 1:
        options["padding"] += 1
    return nn.Conv2d(channels, out, window, dilation=dilation, groups=groups, **options)


def activations(steps: list[Any]) -> Any:
    """Activations after some steps; torch has derivatives of those in place right after weights."""
    weighted = bool(steps) and isinstance(steps[-1], nn.Linear | nn.Conv2d)
    names = [name for name in sorted(ACTIVATIONS) if weighted or "in place" not in name]
    return st.one_of(
        st.sampled_from(names).map(lambda name: ACTIVATIONS[name]()),
        st.sampled_from(sorted(CALLS)).map(lambda name: CALLS[name]),
    )


@st.composite
def chains(draw: Any, input_shape: tuple[int, ...]) -> nn.Module:
    """Layers over images, then dense ones: pooling and activations before the first weights included."""
    steps: list[Any] = []

    def after() -> torch.Size:
        with torch.no_grad():
            return Steps(steps)(torch.zeros(1, *input_shape)).shape[1:]

    for _ in range(draw(st.integers(0, 3))):
        shape = after()
        kind = draw(st.sampled_from(["pooling", "pooling", "activation", "convolution"]))
        if kind == "pooling":
            steps.append(draw(poolings(min(shape[1:]))))
        elif kind == "convolution":
            steps.append(draw(convolutions(shape[0], min(shape[1:]))))
        else:
            steps.append(draw(activations(steps)))
    steps.append(draw(st.sampled_from(FLATTENINGS)))
    for _ in range(draw(st.integers(0, 2))):
        steps += draw(st.lists(activations(steps), max_size=1))
        steps.append(nn.Linear(int(after()[0]), draw(st.integers(1, 12)), bias=draw(st.booleans())))
    steps += draw(st.lists(activations(steps), max_size=1))
    return Steps([*steps, nn.Linear(int(after()[0]), NUM_CLASSES, bias=draw(st.booleans()))])


@st.composite
def trainings(draw: Any) -> LocalTraining:
    """Exact gradients over full or drawn batches."""
    return LocalTraining(
        inner_lr=draw(st.sampled_from([0.0, 0.05, 0.4])),
        outer_lr=0.2,
        inner_steps=draw(st.integers(1, 3)),
        local_steps=draw(st.integers(1, 2)),
        batch_size=draw(st.sampled_from([None, None, 2, 4])),
        batches=draw(st.sampled_from(["shared", "independent"])),
    )


def drawn_example(module: nn.Module, input_shape: tuple[int, ...], seed: int, loss: Any = "cross-entropy") -> Example:
    """Samples of a few UEs, of different sizes, for a drawn chain with drawn weights."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / prod(parameter.shape[1:]) ** 0.5)
    sizes = np.array([4, 1, 7, 3])
    inputs = torch.randn(int(sizes.sum()), *input_shape, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, NUM_CLASSES, (len(inputs),), generator=generator)
    return Example(make_task(module, loss), inputs, targets, sizes)
