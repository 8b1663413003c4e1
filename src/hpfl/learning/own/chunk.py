"""A chunk of UEs with weights of their own: their batches of all local steps, and gradients and descents on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpfl.arrays import IntArray
from hpfl.learning.batches import Batch
from hpfl.learning.local_batches import Stack
from hpfl.learning.own.layers import Into, Params
from hpfl.learning.own.network import OwnNetwork
from hpfl.learning.own.stage import Stages, Walker
from hpfl.learning.task import ParameterSpec


@dataclass(frozen=True)
class Pace:
    """How points move: `p <- p - rate speed`, `speed <- momentum speed + slope`; see `local_descent.Descent`."""

    rate: float
    momentum: float
    weight_decay: float
    spring: float
    moving: frozenset[str]  # parameters

    @property
    def shrink(self) -> float:
        """What a point is drawn by towards zero, before what it is drawn to is added."""
        return self.spring + self.weight_decay


@dataclass(frozen=True)
class OwnChunk:
    """UEs that take fewer steps come after those that take more."""

    network: OwnNetwork
    spec: ParameterSpec
    stacked: dict[str, Batch]  # by role, [S, u, n, ...]
    counts: IntArray  # [S, u]: samples that count
    stages: Stages | None = None  # where steps are recorded, on a GPU

    @property
    def num_ues(self) -> int:
        """Number u of UEs."""
        return int(self.counts.shape[1])

    def batch(self, number: int, role: str = "support") -> Batch:
        """The batch of one step."""
        own = self.stacked.get(role, self.stacked["support"])
        return own.each(lambda part: part[number])

    def above(self, moving: frozenset[str], params: Params) -> "OwnChunk":
        """The chunk as those layers see it that move, and all above: what comes from below them stays the same."""
        below, rest = self.network.split(moving)
        if not below.names:
            return self
        support = self.stacked["support"]
        rows = torch.stack([below.outputs(params, inputs) for inputs in support.inputs])
        return replace(self, network=rest, stacked={"support": replace(support, inputs=rows)})

    def active(self, number: int) -> int:
        """How many UEs, from the first on, take a step."""
        return int(np.count_nonzero(self.counts[number]))

    def parts(self, flat: Tensor) -> Params:
        """The network's parameters of a vector [u, P], apart from each other."""
        return self.network.laid({name: own.contiguous() for name, own in self._views(flat).items()})

    def walking(self, start: Tensor) -> Params:
        """The same, to be written over."""
        own = {name: own.clone(memory_format=torch.contiguous_format) for name, own in self._views(start).items()}
        return self.network.laid(own)

    def whole(self, params: Params, others: Tensor) -> Tensor:
        """One vector [u, P] of parameters; those that are not the network's come from another."""
        rest = self.spec.unflatten(others)
        each = [params[name] if name in params else rest[name] for name in self.spec.names]
        return torch.cat([own.reshape(len(others), -1) for own in each], 1)

    def gradient(self, number: int, role: str, points: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [u] and gradients [u, P] at points [u, P]."""
        params, batch = self.parts(points), self.batch(number, role)
        if self.stages is None:
            found = {name: torch.empty_like(own) for name, own in params.items()}
            loss = self.network.gradient(params, batch, Into(found, self.network.names))
        else:
            loss, found = self.stages.gradient(self.network, params, batch)
        if self.spec.beside:
            return loss, self.whole(found, torch.zeros_like(points))
        return loss, self.whole(found, points)

    def outputs(self, points: Tensor, inputs: Tensor) -> Tensor:
        """What the models at points [u, P] say of inputs [u, n, ...]."""
        return self.network.outputs(self.parts(points), inputs)

    def walk(
        self, pace: Pace, numbers: Sequence[int], start: Tensor, centre: Tensor | None, drift: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Where steps lead from starts [u, P], and the losses [u] at the first; see `local_descent.Descent`."""
        walker = Walker(self.network, pace, self.walking(start), self.towards(pace, centre, drift))
        first = walker.run(self, numbers)
        return self.whole(walker.point, start), first

    def _views(self, flat: Tensor) -> Params:
        own = self.spec.unflatten(flat)
        return {name: own[name] for name in self.spec.names if name in self.network.names}

    def towards(self, pace: Pace, centre: Tensor | None, drift: Tensor | None) -> Params | None:
        """`spring centre - drift` of the parameters that move; None: nothing."""
        found: Params = {}
        if centre is not None and pace.spring:
            found = {name: _once(own, pace.spring) for name, own in self._views(centre).items() if name in pace.moving}
        if drift is not None:
            less = {name: own for name, own in self._views(drift).items() if name in pace.moving}
            found = {name: found[name] - own if name in found else own.neg() for name, own in less.items()}
        return self.network.laid(found) or None


def _once(own: Tensor, scale: float) -> Tensor:
    """`scale own`, once for all UEs where it is the same for all."""
    return (own[:1] * scale).expand_as(own) if own.stride(0) == 0 else own * scale


def stack_of(steps: Sequence[Any]) -> Stack:
    """Batches of steps given one by one as one stack by role."""
    if isinstance(steps, Stack):
        return steps
    different: list[Any] = []
    numbers = []
    for step in steps:
        if not different or step is not different[-1]:
            different.append(step)
        numbers.append(len(different) - 1)
    stacked = {
        role: Batch(
            torch.stack([step[role].inputs for step in different]),
            torch.stack([step[role].targets for step in different]),
            torch.stack([step[role].weights for step in different]),
        )
        for role in different[0]
    }
    counts = (stacked["support"].weights != 0).sum(2).cpu().numpy()
    order = np.argsort(-np.count_nonzero(counts, axis=0), kind="stable")
    if np.array_equal(order, np.arange(len(order))):
        return Stack(stacked, counts, numbers, None)
    place = torch.from_numpy(order).to(stacked["support"].inputs.device)
    moved = {role: own.each(lambda part: part.index_select(1, place)) for role, own in stacked.items()}
    return Stack(moved, counts[:, order], numbers, order)
