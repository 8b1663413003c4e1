"""Many steps in a row from points of each UE's own: in place, and on a GPU as replays of one recorded step."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.own.layers import Into, Params
from hpfl.learning.own.network import OwnNetwork
from hpfl.learning.recording import recorded_graph

LEAST_RUN = 4  # steps in a row that pay for a recording


class _Pace(Protocol):
    @property
    def rate(self) -> float: ...
    @property
    def momentum(self) -> float: ...
    @property
    def shrink(self) -> float: ...
    @property
    def moving(self) -> frozenset[str]: ...


class _Chunk(Protocol):
    @property
    def num_ues(self) -> int: ...
    @property
    def stages(self) -> "Stages | None": ...
    def batch(self, number: int, role: str = "support") -> Batch: ...
    def active(self, number: int) -> int: ...


@dataclass
class Walker:
    """Points of UEs on their way."""

    network: OwnNetwork
    pace: _Pace
    point: Params  # moved in place
    towards: Params | None  # what points are drawn to, of those that move
    speed: Params = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.pace.momentum and not self.speed:
            self.speed = {name: torch.zeros_like(self.point[name]) for name in self.pace.moving}

    def run(self, chunk: _Chunk, numbers: Sequence[int]) -> Tensor:
        """Take steps; the losses [u] at the first."""
        first: Tensor | None = None
        stage = None if chunk.stages is None else chunk.stages.of(self, chunk)
        walker = self if stage is None else stage.walker
        for active, run in groupby(numbers, key=chunk.active):
            own, taken = walker.of(active), list(run)
            for number in taken if active else []:
                batch = first_ues(chunk.batch(number), active)
                if stage is None or (len(taken) < LEAST_RUN and not stage.has(self.pace, active)):
                    loss = own.step(batch)
                else:
                    loss = stage.replayed(self.pace, active, batch, own)
                if first is None:
                    first = loss.new_zeros(chunk.num_ues)
                    first[:active] = loss
        if stage is not None:
            stage.give(self)
        assert first is not None
        return first

    def of(self, count: int) -> "Walker":
        """The walk of the first UEs alone: the same numbers, seen in part."""
        if count == len(next(iter(self.point.values()))):
            return self
        towards = None if self.towards is None else first_params(self.towards, count)
        point, speed = first_params(self.point, count), first_params(self.speed, count)
        return Walker(self.network, self.pace, point, towards, speed)

    def step(self, batch: Batch) -> Tensor:
        """One step of all; the losses before it."""
        pace, point = self.pace, self.point
        if not pace.momentum:
            into = Into(point, pace.moving, beta=1 - pace.rate * pace.shrink, alpha=-pace.rate)
            loss = self.network.gradient(point, batch, into)
            for name, own in (self.towards or {}).items():
                point[name].add_(own, alpha=pace.rate)
            return loss
        loss = self.network.gradient(point, batch, Into(self.speed, pace.moving, beta=pace.momentum))
        for name, speed in self.speed.items():
            if pace.shrink:
                speed.add_(point[name], alpha=pace.shrink)
            if self.towards is not None:
                speed.sub_(self.towards[name])
            point[name].add_(speed, alpha=-pace.rate)
        return loss


class Stages:
    """What a GPU has recorded of steps, by what the recordings read and write."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Stage] = {}
        self.slopes: dict[Hashable, tuple[Params, Batch, Params, Any, Tensor]] = {}
        self.recorded: dict[Hashable, Any] = {}  # see `recorded_steps`
        self.pool: Any = None

    def shared_pool(self) -> Any:
        """The memory of all recordings."""
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        return self.pool

    def of(self, walker: Walker, chunk: _Chunk) -> "Stage":
        """The stage of such walks, set for this one."""
        batch = chunk.batch(0)
        shapes = tuple((own.shape, own.dtype) for own in (batch.inputs, batch.targets, batch.weights))
        key = (shapes, tuple(sorted(walker.speed)), tuple(sorted(walker.towards or {})))
        if key not in self.known:
            self.known[key] = Stage(walker, batch, self.shared_pool())
        self.known[key].take(walker)
        return self.known[key]

    def gradient(self, network: OwnNetwork, point: Params, batch: Batch) -> tuple[Tensor, Params]:
        """Losses and gradients at points, by a recording."""
        parts = (batch.inputs, batch.targets, batch.weights)
        key = ("gradient", tuple((own.shape, own.dtype) for own in parts))
        if key not in self.slopes:
            held, found = _like(point), _like(point)
            mine = batch.each(torch.clone)
            set_to(held, point)
            into = Into(found, network.names)
            graph, loss = recorded_graph(lambda: network.gradient(held, mine, into), self.shared_pool())
            self.slopes[key] = (held, mine, found, graph, loss)
        held, mine, found, graph, loss = self.slopes[key]
        set_to(held, point)
        for own, given in zip((mine.inputs, mine.targets, mine.weights), parts, strict=True):
            own.copy_(given)
        graph.replay()
        return loss.clone(), found


class Stage:
    """Numbers that stay where they are, so that a recorded step can be replayed on them."""

    def __init__(self, walker: Walker, batch: Batch, pool: Any) -> None:
        towards = None if walker.towards is None else _like(walker.towards)
        self.walker = Walker(walker.network, walker.pace, _like(walker.point), towards, _like(walker.speed))
        self.batch = batch.each(torch.empty_like)
        self.pool, self.graphs = pool, dict[Hashable, tuple[Any, Tensor]]()

    def take(self, walker: Walker) -> None:
        """Set to where a walk begins."""
        self.walker.pace = walker.pace
        for mine, given in self._pairs(walker):
            mine.copy_(given)

    def give(self, walker: Walker) -> None:
        """Tell a walk where it has come to."""
        for name, own in self.walker.point.items():
            walker.point[name].copy_(own)

    def has(self, pace: _Pace, active: int) -> bool:
        """Whether such a step has been recorded."""
        return (pace, active) in self.graphs

    def replayed(self, pace: _Pace, active: int, batch: Batch, own: Walker) -> Tensor:
        """One step of the first UEs on a batch; the losses before it."""
        mine = first_ues(self.batch, active)
        for held, given in ((mine.inputs, batch.inputs), (mine.targets, batch.targets), (mine.weights, batch.weights)):
            held.copy_(given)
        if not self.has(pace, active):
            before = [(kept, kept.clone()) for kept in (*own.point.values(), *own.speed.values())]
            self.graphs[pace, active] = recorded_graph(lambda: own.step(mine), self.pool)
            for kept, first in before:
                kept.copy_(first)
        graph, loss = self.graphs[pace, active]
        graph.replay()
        return loss

    def _pairs(self, walker: Walker) -> list[tuple[Tensor, Tensor]]:
        pairs = [(own, walker.point[name]) for name, own in self.walker.point.items()]
        pairs += [(own, walker.speed[name]) for name, own in self.walker.speed.items()]
        towards = walker.towards or {}
        return pairs + [(own, towards[name]) for name, own in (self.walker.towards or {}).items()]


def set_to(mine: Params, given: Params) -> None:
    """Copy numbers to where recordings read them."""
    for name, own in mine.items():
        own.copy_(given[name])


def first_ues(batch: Batch, count: int) -> Batch:
    """The batch of the first UEs alone."""
    if count == len(batch.inputs):
        return batch
    return batch.each(lambda part: part[:count])


def first_params(params: Params, count: int) -> Params:
    """The numbers of the first UEs alone."""
    return {name: own[:count] for name, own in params.items()}


def _like(params: Params) -> Params:
    return {name: torch.empty_like(own) for name, own in params.items()}
