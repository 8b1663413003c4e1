"""Models by name: plain `torch.nn` modules built for an input shape and a number of outputs."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

from torch import nn

from hpfl.learning.faults import LearningError
from hpfl.registry import Registry

MODELS: Registry[Callable[..., nn.Module]] = Registry("model")


@MODELS.register("mlp")
def mlp(input_shape: Sequence[int], num_outputs: int, hidden: Sequence[int] = (100,)) -> nn.Module:
    """Dense network with ReLU between layers; 784-100-10 on MNIST (section 7.1)."""
    widths = [prod(input_shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], num_outputs))


@MODELS.register("lenet5")
def lenet5(input_shape: Sequence[int], num_outputs: int) -> nn.Module:
    """LeNet-5: two convolutions, three dense layers (section 7.1), with ReLU and max pooling."""
    channels, height, width = input_shape
    if min(height, width) < 16:
        raise LearningError(f"lenet5 wants images of at least 16 x 16 pixels; these have {height} x {width}")
    features = 16 * _after_lenet_convolutions(height) * _after_lenet_convolutions(width)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(features, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, num_outputs),
    )


def _after_lenet_convolutions(pixels: int) -> int:
    return ((pixels - 4) // 2 - 4) // 2
