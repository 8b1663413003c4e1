"""Small linear sketches of updates, from which the cloud estimates norms and inner products before any upload.

A sketch of width `d` flips the sign of every coordinate at random, deals the coordinates to `d` equal groups at random
and adds up each group. It is linear, so an edge's sketch is the mean of its UEs' sketches, and `E <Sx, Sy> = <x, y>`
with variance at most `(|x|^2 |y|^2 + <x, y>^2) / d`: with 64 floats the standard error of a squared norm is about 18 %.
"""

from dataclasses import dataclass

import numpy as np
import torch

from hpfl.rng import Streams

DEFAULT_WIDTH = 64
BITS_PER_FLOAT = 32


@dataclass(frozen=True)
class Projection:
    """One fixed projection of a run: coordinate order [P] and signs [P], and the width of a sketch."""

    order: torch.Tensor
    sign: torch.Tensor
    width: int

    def to(self, device: torch.device) -> "Projection":
        """The same projection on another device."""
        return Projection(self.order.to(device), self.sign.to(device), self.width)

    def __call__(self, updates: torch.Tensor) -> torch.Tensor:
        """Sketches [..., width] of updates [..., P], in float64."""
        flipped = updates.to(torch.float64)[..., self.order] * self.sign
        missing = -flipped.shape[-1] % self.width
        padded = torch.nn.functional.pad(flipped, (0, missing))
        return padded.reshape(*padded.shape[:-1], -1, self.width).sum(dim=-2)


def make_projection(num_parameters: int, streams: Streams, *, width: int = DEFAULT_WIDTH) -> Projection:
    """The projection that a seed fixes; every UE of the run can make the same one."""
    uniforms = streams.at("sketch/sign").uniform(num_parameters)
    return Projection(
        order=torch.from_numpy(streams.at("sketch/order").permutation(num_parameters)),
        sign=torch.from_numpy(np.where(uniforms < 0.5, -1.0, 1.0)),
        width=width,
    )
