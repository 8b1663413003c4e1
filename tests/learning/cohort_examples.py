"""Small cohorts and models that the learning tests share, and the plainest loop that could check them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hpfl.learning import Cohort, LocalTraining, Task, make_task
from hpfl.rng import Streams


@dataclass(frozen=True)
class Segments:
    offsets: np.ndarray
    start: np.ndarray
    length: np.ndarray


def one_segment_each(sizes: np.ndarray) -> Segments:
    return Segments(np.arange(len(sizes) + 1), np.cumsum(sizes) - sizes, sizes)


@dataclass(frozen=True)
class Example:
    """A task with data for UEs of different sizes."""

    task: Task
    inputs: Tensor
    targets: Tensor
    sizes: np.ndarray

    @property
    def start(self) -> Tensor:
        return self.task.initial_parameters(Streams(7).at("init")).double()

    def cohort(self, training: LocalTraining, **options: Any) -> Cohort:
        return Cohort(
            self.task,
            training,
            inputs=self.inputs,
            targets=self.targets,
            shards=one_segment_each(self.sizes),
            dtype=options.pop("dtype", torch.float64),
            **options,
        )

    def shard(self, ue: int) -> tuple[Tensor, Tensor]:
        first = int(self.sizes[:ue].sum())
        rows = slice(first, first + int(self.sizes[ue]))
        return self.inputs[rows], self.targets[rows]


def updates(cohort: Cohort, start: Tensor, **options: Any) -> Any:
    """Updates of all UEs, dealt to three groups."""
    ues = np.arange(cohort.num_ues)
    defaults = {"ues": ues, "groups": ues % 3, "num_groups": 3, "streams": Streams(5), "key": 2}
    return cohort.updates(start, **{**defaults, **options})


SIZES = np.array([5, 3, 9, 4, 12, 1, 7])


def images(shape: tuple[int, ...], model: str | Callable[..., nn.Module], **options: Any) -> Example:
    """Random images of four classes for a model."""
    generator = torch.Generator().manual_seed(11)
    inputs = torch.rand(int(SIZES.sum()), *shape, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 4, (len(inputs),), generator=generator)
    task = make_task(model, input_shape=shape, num_outputs=4, options=options)
    return Example(task, inputs, targets, SIZES)


class Residual(nn.Module):
    """Dense layers with layer norm and a way around."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(6, 8), nn.Linear(8, 8), nn.LayerNorm(8)
        self.last = nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs.flatten(1)))
        return self.last(self.norm(hidden + torch.tanh(self.second(hidden))))


class TiedTokens(nn.Module):
    """A next-token model whose embedding is also its output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 5)
        self.mix = nn.Linear(5, 5)
        self.out = nn.Linear(5, 9, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(torch.tanh(self.mix(self.embedding(tokens))))


class GroupNormed(nn.Module):
    """A convolution with group norm and a mean over places."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.last = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Linear(4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.convolution(inputs))).mean((2, 3)))


class Attention(nn.Module):
    """A transformer layer over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(9, 4), nn.Linear(4, 9)
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.layer(self.embedding(tokens)))


class Recurrent(nn.Module):
    """A recurrent layer over tokens, which torch cannot batch over UEs."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer, self.out = nn.Embedding(9, 3), nn.GRU(3, 4, batch_first=True), nn.Linear(4, 9)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.layer(self.embedding(tokens))[0])


def dense_over_rows() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Flatten(), nn.Linear(8, 4))


def smooth_chain() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1, stride=2, bias=False),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(3, 4, 2, dilation=1),
        nn.GELU(),
        nn.Flatten(),
        nn.Linear(4, 6),
        nn.Sigmoid(),
        nn.Linear(6, 4, bias=False),
    )


def tokens(model: type[nn.Module] = TiedTokens) -> Example:
    generator = torch.Generator().manual_seed(3)
    text = torch.randint(0, 9, (int(SIZES.sum()), 7), generator=generator)
    return Example(make_task(model), text[:, :-1], text[:, 1:], SIZES)


def regression() -> Example:
    generator = torch.Generator().manual_seed(4)
    inputs = torch.randn(int(SIZES.sum()), 3, generator=generator, dtype=torch.float64)
    targets = inputs.sin().sum(1, keepdim=True)
    model = make_task(lambda: nn.Sequential(nn.Linear(3, 6), nn.Softplus(), nn.Linear(6, 1)), "mse")
    return Example(model, inputs, targets, SIZES)


EXAMPLES: dict[str, Callable[[], Example]] = {
    "mlp": lambda: images((1, 4, 4), "mlp", hidden=(6, 5)),
    "wide mlp": lambda: images((1, 8, 8), "mlp", hidden=(40,)),
    "lenet5": lambda: images((1, 16, 16), "lenet5"),
    "smooth chain": lambda: images((1, 8, 8), smooth_chain),
    "layer norm": lambda: images((1, 2, 3), Residual),
    "group norm": lambda: images((1, 6, 6), GroupNormed),
    "tied tokens": tokens,
    "attention": lambda: tokens(Attention),
    "recurrent": lambda: tokens(Recurrent),
    "dense over rows": lambda: images((1, 2, 3), dense_over_rows),
    "regression": regression,
}


def plain_gradient(task: Task, point: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and gradient of one UE's whole batch by autograd."""
    point = point.detach().requires_grad_()
    loss = task.loss(task.outputs(point, inputs), targets).mean()
    return loss.detach(), torch.autograd.grad(loss, point)[0]


def plain_hessian(task: Task, point: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    """The whole Hessian matrix [P, P]."""
    return torch.autograd.functional.hessian(lambda p: task.loss(task.outputs(p, inputs), targets).mean(), point)
