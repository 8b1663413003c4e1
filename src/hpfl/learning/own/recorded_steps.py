"""A step of many UEs on numbers that it moves in place, taken many times; on a GPU as replays of one recording."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

import torch
from torch import Tensor

from hpfl.learning.batches import Batch
from hpfl.learning.own.layers import Params
from hpfl.learning.own.stage import LEAST_RUN, Stages, first_params, first_ues, set_to
from hpfl.learning.recording import recorded_graph

Moving = tuple[Params, ...]
MovingStep = Callable[..., Tensor]
"""`step(*state, *batches)`, of the first UEs: moves the state, and gives losses."""


class _Batches(Protocol):
    @property
    def stages(self) -> Stages | None: ...
    def batch(self, number: int, role: str = "support") -> Batch: ...
    def active(self, number: int) -> int: ...


class RecordedSteps:
    """What a recorded step reads and writes, and its recordings by the number of UEs."""

    def __init__(self, state: Moving, batches: Sequence[Batch], pool: Any) -> None:
        self.state = tuple({name: torch.empty_like(own) for name, own in part.items()} for part in state)
        self.batches = tuple(batch.each(torch.empty_like) for batch in batches)
        self.pool, self.graphs = pool, dict[int, tuple[Any, Tensor]]()

    def replayed(self, step: MovingStep, count: int, given: Sequence[Batch]) -> Tensor:
        """One step of the first UEs; its losses stay where the next one writes its own."""
        state, batches = first_state(self.state, count), [first_ues(batch, count) for batch in self.batches]
        for mine, batch in zip(batches, given, strict=True):
            mine.inputs.copy_(batch.inputs)
            mine.targets.copy_(batch.targets)
            mine.weights.copy_(batch.weights)
        if count not in self.graphs:
            before = [(own, own.clone()) for part in state for own in part.values()]
            self.graphs[count] = recorded_graph(lambda: step(*state, *batches), self.pool)
            for own, first in before:
                own.copy_(first)
        graph, losses = self.graphs[count]
        graph.replay()
        return losses


def taken(
    chunk: _Batches,
    key: Hashable,
    step: MovingStep,
    state: Moving,
    numbers: Sequence[int],
    roles: Sequence[str] = ("support",),
) -> Iterator[Tensor]:
    """Take steps, but for those that no UE takes; the losses of each, to be read before the next.

    `key` tells apart steps that do not compute the same of state and batches. The state has come where the steps lead
    when the last of them has been asked for.
    """
    recorded = (
        None if chunk.stages is None or not numbers else _recorded(chunk, chunk.stages, key, state, roles, numbers[0])
    )
    at = state if recorded is None else recorded.state
    for count, run in groupby(numbers, key=chunk.active):
        alike = list(run)
        for number in alike if count else []:
            batches = [first_ues(chunk.batch(number, role), count) for role in roles]
            if recorded is None or (len(alike) < LEAST_RUN and count not in recorded.graphs):
                yield step(*first_state(at, count), *batches)
            else:
                yield recorded.replayed(step, count, batches)
    if recorded is not None:
        for given, own in zip(state, at, strict=True):
            set_to(given, own)


def all_taken(losses: Iterator[Tensor]) -> Tensor | None:
    """The losses of the first step, kept while all are taken; None: there is none."""
    first = next(losses, None)
    first = None if first is None else first.clone()
    for _ in losses:
        pass
    return first


def first_state(state: Moving, count: int) -> Moving:
    """The numbers of the first UEs alone."""
    return tuple(first_params(part, count) for part in state)


def _recorded(
    chunk: _Batches, stages: Stages, key: Hashable, state: Moving, roles: Sequence[str], number: int
) -> RecordedSteps:
    """What is recorded of such steps, set to a state."""
    batches = [chunk.batch(number, role) for role in roles]
    shapes = tuple((own.shape, own.dtype) for batch in batches for own in (batch.inputs, batch.targets, batch.weights))
    whole = (key, shapes, tuple(tuple((name, own.shape) for name, own in part.items()) for part in state))
    if whole not in stages.recorded:
        stages.recorded[whole] = RecordedSteps(state, batches, stages.shared_pool())
    recorded: RecordedSteps = stages.recorded[whole]
    for mine, given in zip(recorded.state, state, strict=True):
        set_to(mine, given)
    return recorded
