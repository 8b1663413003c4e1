"""Updates and evaluation of chunks whose UEs' weights are their own: methods, and objectives over epochs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._python_dispatch import _get_current_dispatch_mode

from hpfl.learning.batches import Batch, Samples
from hpfl.learning.engine import Losses, Sums
from hpfl.learning.general import Arrays, GeneralEngine
from hpfl.learning.local_batches import Stack
from hpfl.learning.local_descent import Descent, direction, objective_at_once
from hpfl.learning.method import Method, descended, says_at_once
from hpfl.learning.metrics import Tested, TestOutputs
from hpfl.learning.objective import LocalTraining
<<<<<<< HEAD
from hpfl.learning.own.at_once import AtOnce, WorkRoom
=======
from hpfl.learning.own.at_once import AtOnce, Buffers
>>>>>>> main
from hpfl.learning.own.chunk import OwnChunk, stack_of
from hpfl.learning.own.network import OwnNetwork
from hpfl.learning.own.own_calculus import OwnCalculus, ahead, said, together
from hpfl.learning.own.stage import Stages
from hpfl.learning.precision import repeatable
from hpfl.learning.rehearsal import Rehearsal
from hpfl.learning.task import Task

_CACHED_BYTES = 5_000_000  # of a chunk's weights: few enough for shared caches, enough to pay for the calls


@dataclass(frozen=True)
class OwnEngine(GeneralEngine):
    """Methods for a chunk of UEs at once, by a network that is written out."""

    network: OwnNetwork | None = None
    stages: Stages | None = field(default=None, compare=False)
<<<<<<< HEAD
    works: list[WorkRoom] = field(default_factory=list, compare=False)  # buffers that nobody uses now
=======
    spare: list[Buffers] = field(default_factory=list, compare=False)  # buffers that nobody uses now
>>>>>>> main
    side_by_side: ClassVar[bool] = True  # on a CPU

    @staticmethod
    def read(task: Task, training: LocalTraining, samples: Samples, method: Method | None) -> "OwnEngine | None":
        """The engine of a task whose module is such a network, seen to give what the general engine does."""
        network = OwnNetwork.of(task)
        if network is None or int(samples.targets.min()) < 0:
            return None  # a target that is marked as ignored has no place among the closed form's classes
        try:
            with torch.no_grad(), repeatable():
                if not _rehearsed(task, replace(training, objective="first-order"), samples, network):
                    return None
        except (RuntimeError, ValueError, IndexError):  # where the general engine fails too, it will say so
            return None
        stages = Stages() if samples.inputs.is_cuda else None
        return OwnEngine(task, training, method=method, network=network, stages=stages)

    @property
    def preferred_ues(self) -> int | None:
        """As many as the caches hold; a CPU convolves UE by UE, and a GPU takes what fits."""
        if self.stages is not None or self.network is None:
            return None
        spec = self.task.spec
        size = 4 * sum(n for name, n in zip(spec.names, spec.sizes, strict=True) if name not in spec.beside)
        return 1 if self.network.convolves else max(_CACHED_BYTES // size, 1)

    @torch.no_grad()
    def updates(
        self, start: Tensor, steps: Sequence[dict[str, Batch]], sums: Sums, kept: Tensor | None = None
    ) -> Losses:
        """Add the update directions of a chunk to its group sums."""
        if self.in_place and not start.is_cuda:
            return self.updates_in_place(start, steps, sums, kept, None)
        stack = stack_of(steps)
        own = self._rows(kept, start, _first_arrays(stack.batches))
        if stack.order is not None:
            place = torch.from_numpy(stack.order).to(start.device)
            start, own = (start if start.ndim == 1 else start[place]), own[place]
        found = self._together(start, self._chunk(stack), stack.numbers, own)
        if stack.order is not None:
            back = torch.from_numpy(np.argsort(stack.order)).to(start.device)
            found = tuple(each[back] for each in found)
        directions, now, loss, meta_loss = found
        sums.add(directions)
        return Losses(loss, meta_loss, None if self.method is None else now)

    @property
    def in_place(self) -> bool:
        """Whether chunks are computed in buffers that stay: on a CPU, by methods that say how."""
        if self.stages is not None or self.network is None:
            return False
        if self.method is not None:
            return says_at_once(self.method)
        return not self.training.adapts or self.training.inner_steps == 1

    @torch.no_grad()
    def updates_in_place(
        self, start: Tensor, steps: Sequence[dict[str, Batch]], sums: Sums, kept: Tensor | None, now: Tensor | None
    ) -> Losses:
        """The same without a row for each UE, of what travels; what they keep now goes where there is room for it."""
        stack = stack_of(steps)
        own = self._rows(kept, start, _first_arrays(stack.batches))
        written = torch.empty_like(own) if now is None else now
        if stack.order is None:
            losses = self._at_once(start, stack, sums, own, written)
        else:
            place = torch.from_numpy(stack.order)
            room, moved = torch.empty_like(own), sums.in_order(place)
            start = start if start.ndim == 1 else start[place]
            losses = tuple(
                torch.empty_like(each).index_copy_(0, place, each)
                for each in self._at_once(start, stack, moved, own[place], room)
            )
            written.index_copy_(0, place, room)
            if sums.per_ue is not None and moved.per_ue is not None:
                sums.per_ue.index_copy_(0, place, moved.per_ue)
        return Losses(losses[0], losses[1], None if self.method is None else written)

    @torch.no_grad()
    def evaluation(
        self, parameters: Tensor, train: Batch, test: Batch, training: LocalTraining, kept: Tensor | None = None
    ) -> Tested:
        """Losses before and after adaptation on the whole training shards, and what both models say of the tests."""
        engine, arrays = replace(self, training=training), (train.inputs, train.targets, train.weights)
        own = self._rows(kept, parameters, arrays)
        chunk = engine._chunk(stack_of([{"support": train}]), recorded=False)

        def evaluated(params: Tensor, rows: Tensor, ue: Tensor, support: Arrays, inputs: Tensor) -> tuple[Tensor, ...]:
            taken = torch.ones(1, dtype=torch.bool, device=params.device)
            calculus = OwnCalculus(self.task, {"support": support}, chunk, 0, ue, taken)
            theta, loss = engine._personal(calculus, params, rows)
            meta_loss = calculus.gradient(theta).loss
            loss = meta_loss if loss is None else loss
            return loss, meta_loss, said(chunk, ue, theta, inputs), said(chunk, ue, params, inputs)

        data: Any = (own, _numbers(len(own), own), tuple(array.unsqueeze(0) for array in arrays), test.inputs)
        found: Any = vmap(evaluated, in_dims=(None, 0, 0, 1, 0))(parameters, *data)
        tests = (TestOutputs(out, test.targets, test.weights, self.task, self._losses_on(test)) for out in found[2:])
        return Tested(*found[:2], *tests)

    def _chunk(self, stack: Stack, *, recorded: bool = True) -> OwnChunk:
        """A chunk; what is only tried, to see what memory it takes, is not recorded."""
        assert self.network is not None
        stages = self.stages if recorded and _get_current_dispatch_mode() is None else None
        return OwnChunk(self.network, self.task.spec, stack.batches, stack.counts, stages)

    def _together(self, start: Tensor, chunk: OwnChunk, numbers: Sequence[int], own: Tensor) -> tuple[Tensor, ...]:
        """Direction, what is kept now, and the first step's losses of all UEs of a chunk."""
        arrays = {role: (b.inputs, b.targets, b.weights) for role, b in chunk.stacked.items()}
        taken = torch.from_numpy(chunk.counts != 0).to(start.device)

        def updated(params: Tensor, rows: Tensor, ue: Tensor, data: dict[str, Arrays], takes: Tensor) -> Any:
            steps = [OwnCalculus(self.task, data, chunk, number, ue, takes) for number in numbers]
            if self.method is not None:
                local = self.method.local(steps, params, rows, self.training)
                return local.direction, local.kept, local.loss, local.meta_loss
            return self._objective(steps, params, rows)

        dims = (0 if start.ndim == 2 else None, 0, 0, 1, 1)
        found: tuple[Tensor, ...] = vmap(updated, in_dims=dims)(start, own, _numbers(len(own), own), arrays, taken)
        return found

    def _at_once(self, start: Tensor, stack: Stack, sums: Sums, own: Tensor, now: Tensor) -> tuple[Tensor, ...]:
        """The first step's losses of all UEs of a chunk, in buffers of which no other thread has any."""
        chunk, tried = self._chunk(stack), _get_current_dispatch_mode() is not None
        begin = start if start.ndim == 2 else start.expand(chunk.num_ues, -1)
<<<<<<< HEAD
        work = WorkRoom() if tried or not self.works else self.works.pop()
=======
        work = Buffers() if tried or not self.spare else self.spare.pop()
>>>>>>> main
        ues = AtOnce(chunk, stack.numbers, begin, own, now, sums, self.training.outer_lr, work)
        if self.method is None:
            losses = objective_at_once(ues, self.training)
        else:
            method: Any = self.method
            losses = method.at_once(ues, self.training)
        if not tried:
            self.spare.append(work)
        return losses

    def _objective(self, steps: Sequence[OwnCalculus], params: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        rates = self.training.inner_lr, self.training.outer_lr
        if self.training.adapts and self.training.inner_steps == 1 and together(steps):
            end, before, after = ahead(rates, steps, params)
            return direction(params, end, self.training), rows, before, after
        if self.training.adapts:
            total, _, losses = descended(steps, params, self.training)
            return total, rows, *losses
        end, loss = Descent(self.training.outer_lr).walk(steps, params)
        return direction(params, end, self.training), rows, loss, loss


def _rehearsed(task: Task, training: LocalTraining, samples: Samples, network: OwnNetwork) -> bool:
    """Whether updates and evaluations are the general engine's: in float64, and as a GPU will run."""
    rehearsal = Rehearsal.of(task, training, samples)
    expected = rehearsal.expected()
    if not rehearsal.gives(OwnEngine(rehearsal.task, rehearsal.training, network=network), expected, None):
        return False
    if not samples.inputs.is_cuda:
        return True
    there = rehearsal.on(samples.inputs.device, samples.dtype)
    return there.gives(OwnEngine(there.task, there.training, network=network), expected, None)


def _first_arrays(stacked: dict[str, Batch]) -> Arrays:
    own = stacked["support"]
    return own.inputs[0], own.targets[0], own.weights[0]


def _numbers(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, device=like.device)
